"""A certificate authority for the tests: made with openssl, as an operator would."""

import pathlib
import subprocess

CA = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n"
LEAF = "basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n"
HERE = "DNS:localhost,IP:127.0.0.1"


def openssl(*arguments):
    done = subprocess.run(["openssl", *[str(a) for a in arguments]], capture_output=True, text=True)
    assert done.returncode == 0, f"openssl {arguments}: {done.stderr}"
    return done.stdout


class Pair:
    """A certificate (with its chain) and its key."""

    def __init__(self, cert, key):
        self.cert, self.key = pathlib.Path(cert), pathlib.Path(key)

    def copy_to(self, other):
        """Takes the other's place, file by file, as a tool that renews does."""
        for mine, its in ((self.cert, other.cert), (self.key, other.key)):
            new = its.with_suffix(".new")
            new.write_bytes(mine.read_bytes())
            new.chmod(0o600)
            new.rename(its)


class Authority:
    def __init__(self, folder, name="authority"):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.name, self.count = name, 0
        self.cert, self.key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        self.config = self.folder / f"{name}.cnf"
        (self.folder / f"{name}.index").write_text("")
        (self.folder / f"{name}.serial").write_text("1000\n")
        self.config.write_text(f"[ca]\ndefault_ca=one\n[one]\ndatabase={self.folder}/{name}.index\nserial={self.folder}/{name}.serial\n"
                               f"new_certs_dir={self.folder}\ndefault_md=sha256\npolicy=any\ncopy_extensions=none\nunique_subject=no\n"
                               f"certificate={self.cert}\nprivate_key={self.key}\n[any]\ncommonName=supplied\n"
                               f"[req]\ndistinguished_name=dn\n[dn]\n[own]\n{CA}")
        self._key(self.key)
        openssl("req", "-x509", "-new", "-key", self.key, "-subj", f"/CN={name}", "-days", 30, "-out", self.cert,
                "-config", self.config, "-extensions", "own")

    @staticmethod
    def _key(path):
        openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path)
        path.chmod(0o600)

    def pair(self, name, names=HERE, dates=None):
        """A new pair; `dates` are (from, until) as YYYYMMDDHHMMSSZ."""
        cert, key, request = (self.folder / f"{name}.{end}" for end in ("pem", "key", "csr"))
        self._key(key)
        openssl("req", "-new", "-key", key, "-subj", f"/CN={name}", "-out", request, "-config", self.config)
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(LEAF + (f"subjectAltName={names}\n" if names else ""))
        when = ["-startdate", dates[0], "-enddate", dates[1]] if dates else ["-days", 30]
        openssl("ca", "-batch", "-notext", "-config", self.config, "-in", request, "-out", cert, "-extfile", extensions, *when)
        return Pair(cert, key)

    def revoke(self, *pairs):
        """The list of revoked certificates, as PEM text."""
        for pair in pairs:
            openssl("ca", "-config", self.config, "-revoke", pair.cert)
        return openssl("ca", "-config", self.config, "-gencrl", "-crldays", 30)
