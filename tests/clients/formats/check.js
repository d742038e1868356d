// Reads {slack, teams, webhook: {secret, headers, body}} and prints what is wrong with each, as JSON.
const { AdaptiveCard, SerializationContext, Versions } = require("adaptivecards/dist/adaptivecards.js");
const { Webhook } = require("standardwebhooks");
const { execFileSync } = require("node:child_process");
const { readFileSync, writeFileSync } = require("node:fs");

function card(message) {
    const context = new SerializationContext(Versions.v1_4), parsed = new AdaptiveCard();
    parsed.parse(message.attachments[0].content, context);
    const wrong = parsed.validateProperties().validationEvents.map(event => event.message);
    for (let at = 0; at < context.eventCount; at++) wrong.push(context.getEventAt(at).message);
    return wrong;
}

function blocks(message) {
    writeFileSync("slack.ts", `import type { KnownBlock } from "@slack/types";
export const message: { text: string; unfurl_links: boolean; blocks: KnownBlock[] } = ${JSON.stringify(message)};\n`);
    try {
        execFileSync(process.execPath, ["node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "slack.ts"], { encoding: "utf8" });
        return [];
    } catch (failed) {
        return [failed.stdout || String(failed)];
    }
}

function signature({ secret, headers, body }) {
    try {
        new Webhook(secret).verify(body, headers);
        return [];
    } catch (failed) {
        return [String(failed)];
    }
}

const given = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify({ teams: given.teams.map(card), slack: given.slack.map(blocks), webhook: given.webhook.map(signature) }));
