// OpenAI's client for Node, by chat completions and by responses.
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { run } from "./parts.mjs";

const [url, key, api] = process.argv.slice(2);
const client = new OpenAI({ baseURL: url, apiKey: key, defaultHeaders: { "X-Reckoner-Episode": "journey" } });
const about = { model: "helper", user: "ann" };
const schema = { type: "object", properties: { place: { type: "string" } }, required: ["place"], additionalProperties: false };
const weather = { name: "weather", description: "The weather at a place.", parameters: schema, strict: true };
const Trip = z.object({ to: z.string(), by: z.string() });

const chats = {
  async turns() {
    const messages = [{ role: "system", content: "Be brief." }, { role: "user", content: "How do I get to Oslo?" }];
    const first = (await client.chat.completions.create({ ...about, messages })).choices[0].message;
    messages.push(first, { role: "user", content: "And back?" });
    const second = (await client.chat.completions.create({ ...about, messages })).choices[0].message;
    return [first.content, second.content];
  },
  async tools() {
    const runner = client.chat.completions.runTools({
      ...about,
      messages: [{ role: "user", content: "How is the weather in Oslo?" }],
      tools: [{ type: "function", function: { ...weather, parse: JSON.parse, function: ({ place }) => `rain in ${place}` } }],
    });
    return await runner.finalContent();
  },
  async typed() {
    const messages = [{ role: "user", content: "Plan a trip to Oslo." }];
    const response_format = zodResponseFormat(Trip, "Trip");
    return (await client.chat.completions.parse({ ...about, messages, response_format })).choices[0].message.parsed;
  },
  async stream() {
    const messages = [{ role: "user", content: "Is Oslo far?" }];
    const pieces = [];
    for await (const chunk of await client.chat.completions.create({ ...about, messages, stream: true }))
      if (chunk.choices[0]?.delta.content) pieces.push(chunk.choices[0].delta.content);
    return pieces;
  },
};

const responses = {
  async turns() {
    const input = [{ role: "user", content: "How do I get to Oslo?" }];
    const first = await client.responses.create({ ...about, instructions: "Be brief.", input });
    input.push(...first.output, { role: "user", content: "And back?" });
    const second = await client.responses.create({ ...about, instructions: "Be brief.", input });
    return [first.output_text, second.output_text];
  },
  async tools() {
    const tools = [{ type: "function", ...weather }];
    const input = [{ role: "user", content: "How is the weather in Oslo?" }];
    const asked = await client.responses.create({ ...about, input, tools });
    const call = asked.output.find((item) => item.type === "function_call");
    const output = `rain in ${JSON.parse(call.arguments).place}`;
    input.push(...asked.output, { type: "function_call_output", call_id: call.call_id, output });
    return (await client.responses.create({ ...about, input, tools })).output_text;
  },
  async typed() {
    const text = { format: zodTextFormat(Trip, "Trip") };
    return (await client.responses.parse({ ...about, input: "Plan a trip to Oslo.", text })).output_parsed;
  },
  async stream() {
    const pieces = [];
    for await (const event of await client.responses.create({ ...about, input: "Is Oslo far?", stream: true }))
      if (event.type === "response.output_text.delta") pieces.push(event.delta);
    return pieces;
  },
};

await run(api === "responses" ? responses : chats);
