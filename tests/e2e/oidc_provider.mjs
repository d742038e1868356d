// An identity provider (npm oidc-provider, certified for OpenID Connect) on a loopback address, for tests.
//
//   node oidc_provider.mjs CONFIG.json        prints one line of JSON: {"issuer": "http://127.0.0.1:PORT"}
//
// CONFIG.json (all members may be missing):
//   port          0: any free one
//   tls           {"cert": FILE, "key": FILE}: https instead of http
//   alg           "RS256" (default), "ES256" or "EdDSA"
//   clients       metadata of clients (OpenID Connect Registration). Default: client `writ` with the secret
//                 `writ-secret-of-32-characters-0001` and any redirect URI that is in `redirect_uris`
//   redirect_uris of the default client
//   users         {"carol": {"email": …, "email_verified": true, "groups": ["finance"], …}}: claims by `sub`
//
// People sign in at /login without a password: ?user=NAME of the interaction page, which the form sends.
// Beside the provider's own paths there are, for tests:
//   POST /test/rotate          {"keep": true|false}: a new signing key; `keep` publishes the old one, too
//   POST /test/token           {"claims": {…}, "header": {…}, "key": "current"|"old"|"other"}: a signed JWT
//                              with exactly these claims, and `iss`, `iat`, `exp` if they are missing (null
//                              leaves one out); "other" is a key that the provider never published
//   POST /test/away            {"away": true|false}: every other path answers 503
//   POST /test/override        {"path": "/jwks", "status": 200, "headers": {…}, "body": "…"}: what that path
//                              answers from now on; without `status` it answers as before
//   GET  /test/requests        {"/jwks": 3, …}: how often each path was asked for
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { generateKeyPairSync, createPrivateKey, sign as signBytes, randomUUID } from 'node:crypto'
import http from 'node:http'
import https from 'node:https'
import { pathToFileURL } from 'node:url'

const require = createRequire(new URL('../../build/clients/oidc/', import.meta.url))
const { Provider } = await import(pathToFileURL(require.resolve('oidc-provider')).href)
console.warn = console.info = () => {} // its advice for production

const config = process.argv[2] ? JSON.parse(readFileSync(process.argv[2], 'utf8')) : {}
const users = config.users ?? { carol: { email: 'carol@example.com', email_verified: true, groups: ['finance'] } }
const alg = config.alg ?? 'RS256'

// ---- keys ----

function makeKey() {
    const [kind, options] = { RS256: ['rsa', { modulusLength: 2048 }], ES256: ['ec', { namedCurve: 'P-256' }], EdDSA: ['ed25519', {}] }[alg]
    return { ...generateKeyPairSync(kind, options).privateKey.export({ format: 'jwk' }), alg, use: 'sig', kid: randomUUID() }
}

let current = makeKey()
let old = null
let published = [current]
const other = makeKey()

const base64url = (text) => Buffer.from(text).toString('base64url')

function signToken(header, claims, jwk) {
    const text = `${base64url(JSON.stringify(header))}.${base64url(JSON.stringify(claims))}`
    const key = createPrivateKey({ key: jwk, format: 'jwk' })
    const signature = signBytes(alg === 'EdDSA' ? null : 'sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' })
    return `${text}.${signature.toString('base64url')}`
}

// ---- the provider: made again when keys change; grants stay in `stored` ----

const stored = new Map()

class Memory {
    constructor(model) { this.prefix = `${model}:` }
    async upsert(id, payload) {
        stored.set(this.prefix + id, payload)
        if (payload.uid) stored.set(`${this.prefix}uid:${payload.uid}`, id)
    }
    async find(id) { return stored.get(this.prefix + id) }
    async findByUid(uid) { return this.find(stored.get(`${this.prefix}uid:${uid}`)) }
    async findByUserCode() { return undefined }
    async destroy(id) { stored.delete(this.prefix + id) }
    async consume(id) { stored.get(this.prefix + id).consumed = Math.floor(Date.now() / 1000) }
    async revokeByGrantId(grant) { for (const [key, value] of stored) if (value?.grantId === grant) stored.delete(key) }
}

const names = [...new Set(Object.values(users).flatMap(Object.keys))].filter((name) => name !== 'email' && name !== 'email_verified')
const cookieKeys = [randomUUID()]
let issuer
let handle

function makeProvider() {
    const provider = new Provider(issuer, {
        adapter: Memory,
        jwks: { keys: published },
        clients: config.clients ?? [{
            client_id: 'writ',
            client_secret: 'writ-secret-of-32-characters-0001',
            redirect_uris: config.redirect_uris ?? [],
            post_logout_redirect_uris: config.post_logout_redirect_uris ?? [],
            id_token_signed_response_alg: alg,
        }],
        claims: { openid: ['sub', ...names], email: ['email', 'email_verified'] },
        conformIdTokenClaims: false,
        cookies: { keys: cookieKeys },
        enabledJWA: { idTokenSigningAlgValues: [alg] },
        features: { devInteractions: { enabled: false }, rpInitiatedLogout: { enabled: true, logoutSource: autoSubmit, postLogoutSuccessSource: (ctx) => { ctx.body = 'signed out' } } },
        findAccount: (ctx, id) => users[id] && { accountId: id, claims: () => ({ sub: id, ...users[id] }) },
        interactions: { url: (ctx, interaction) => `/login/${interaction.uid}` },
        loadExistingGrant: async (ctx) => { // no question whether the client may have the claims
            const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId })
            grant.addOIDCScope('openid email profile')
            await grant.save()
            return grant
        },
        pkce: { required: () => true },
        ttl: { AccessToken: 600, AuthorizationCode: 60, IdToken: 600, Interaction: 600, Grant: 600, Session: 3600 },
    })
    handle = provider.callback()
    return provider
}

function autoSubmit(ctx, form) {
    ctx.body = `<!DOCTYPE html><title>Sign out</title>${form}<button form="op.logoutForm" name="logout" value="yes">Sign out</button>`
}

// ---- the page of the sign-in ----

async function readBody(request) {
    const chunks = []
    for await (const chunk of request) chunks.push(chunk)
    return Buffer.concat(chunks).toString()
}

async function login(request, response) {
    if (request.method === 'POST') {
        const user = new URLSearchParams(await readBody(request)).get('user')
        const result = users[user] ? { login: { accountId: user } } : { error: 'access_denied', error_description: 'no such user' }
        return provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false })
    }
    const buttons = Object.keys(users).map((name) => `<button name="user" value="${name}">${name}</button>`).join('')
    response.setHeader('content-type', 'text/html')
    response.end(`<!DOCTYPE html><title>Provider</title><h1>Sign in</h1><form method="post">${buttons}<button name="user" value="">Refuse</button></form>`)
}

// ---- what tests control ----

let away = false
const overrides = new Map()
const requests = {}

const controls = {
    '/test/rotate': ({ keep = true }) => {
        old = current
        current = makeKey()
        published = keep ? [current, old] : [current]
        provider = makeProvider()
        return { kid: current.kid, old: old.kid }
    },
    '/test/token': ({ claims = {}, header = {}, key = 'current' }) => {
        const jwk = { current, old, other }[key]
        const now = Math.floor(Date.now() / 1000)
        const all = { iss: issuer, iat: now, exp: now + 300, ...claims }
        for (const name in all) if (all[name] === null) delete all[name]
        const head = { alg, typ: 'JWT', kid: jwk.kid, ...header }
        for (const name in head) if (head[name] === null) delete head[name]
        return { token: signToken(head, all, jwk) }
    },
    '/test/away': (body) => { away = body.away; return {} },
    '/test/override': ({ path, ...answer }) => {
        if (answer.status) overrides.set(path, answer)
        else overrides.delete(path)
        return {}
    },
    '/test/requests': () => requests,
}

async function answer(request, response) {
    const path = request.url.split('?')[0]
    if (controls[path]) {
        const text = request.method === 'POST' ? await readBody(request) : ''
        response.setHeader('content-type', 'application/json')
        return response.end(JSON.stringify(await controls[path](text ? JSON.parse(text) : {})))
    }
    requests[path] = (requests[path] ?? 0) + 1
    if (away) return response.writeHead(503).end('away')
    const override = overrides.get(path)
    if (override) return response.writeHead(override.status, override.headers ?? { 'content-type': 'application/json' }).end(override.body ?? '')
    return path.startsWith('/login/') ? login(request, response) : handle(request, response)
}

function listener(request, response) {
    answer(request, response).catch((error) => {
        process.stderr.write(`${error.stack}\n`)
        if (!response.headersSent) response.writeHead(500)
        response.end()
    })
}

const tls = config.tls && { cert: readFileSync(config.tls.cert), key: readFileSync(config.tls.key) }
const server = tls ? https.createServer(tls, listener) : http.createServer(listener)
let provider
server.listen(config.port ?? 0, '127.0.0.1', () => {
    issuer = `${tls ? 'https' : 'http'}://127.0.0.1:${server.address().port}`
    provider = makeProvider()
    console.log(JSON.stringify({ issuer }))
})
process.stdin.on('end', () => process.exit()).resume() // ends with the test that has started it
