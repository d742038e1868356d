/* mcp.ts - the tools of an MCP server behind the gate, for the MCP SDK 1.x.
 *
 *     const server = gateServer(writ, new McpServer({ name, version }));
 *
 * The SDK has no middleware. This wraps each callback as it is registered, so it has to come before the first tool. A callback that
 * throws becomes a result with isError, and the client reads why. */
/** The same server. Each tool that is registered from now on runs what writ permits. */
export function gateServer(client, server, members = {}) {
    const own = new Map();
    const register = server.registerTool.bind(server);
    function held(name, hasInput) {
        const run = async (args, extra) => {
            const call = await client.permit(name, args, { ...members, ids: { toolCallId: extra?.requestId }, signal: extra?.signal, tools: own });
            const one = own.get(call.tool);
            return one?.hasInput ? one.callback(call.args, extra) : one?.callback(extra);
        };
        return hasInput ? run : (extra) => run({}, extra);
    }
    function registerTool(name, config, callback) {
        if (typeof callback !== "function")
            throw new TypeError(`${name}: only a tool with a callback is held by the gate`);
        const hasInput = config.inputSchema !== undefined;
        own.set(name, { callback, hasInput });
        const registered = register(name, config, held(name, hasInput));
        const update = registered.update;
        registered.update = (changes) => {
            for (const member of ["callback", "paramsSchema", "name"]) {
                if (changes[member] !== undefined && changes[member] !== null)
                    refused(`update() of ${member}`);
            }
            if (changes["name"] === null)
                own.delete(name);
            update(changes);
        };
        return registered;
    }
    Object.defineProperties(server, {
        registerTool: { value: registerTool },
        tool: { value: () => refused("tool()") },
        experimental: { get: () => refused("experimental") },
    });
    return server;
}
/** Ways around the gate. */
function refused(what) {
    throw new TypeError(`${what} is not held by the gate; use registerTool()`);
}
