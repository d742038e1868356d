"""The tools of the example agents. Each appends a line to ran.txt in the folder where the agent runs."""

import json
import pathlib
from typing import Callable, List


def did(tool: str, **args: object) -> str:
    with pathlib.Path("ran.txt").open("a") as file:
        file.write(f"{tool} {json.dumps(args, sort_keys=True)}\n")
    return f"{tool} is done"


def issue_refund(amount: int) -> str:
    """Refunds an amount to the customer."""
    return did("issue_refund", amount=amount)


def delete_customer(name: str) -> str:
    """Deletes a customer."""
    return did("delete_customer", name=name)


def write_orders_prod(path: str) -> str:
    """Writes orders to production."""
    return did("write_orders_prod", path=path)


def write_file(path: str) -> str:
    """Writes a file."""
    return did("write_file", path=path)


ALL: List[Callable[..., str]] = [issue_refund, delete_customer, write_orders_prod, write_file]
