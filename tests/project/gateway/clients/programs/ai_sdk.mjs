// Vercel's AI SDK with three of its models: OpenAI's by responses (its default) and by chats, and the compatible one.
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { run } from "./parts.mjs";

const [url, key, api] = process.argv.slice(2);
const settings = { baseURL: url, apiKey: key, headers: { "X-Reckoner-Episode": "journey" } };
const openai = createOpenAI(settings);
const compatible = createOpenAICompatible({ ...settings, name: "reckoner", includeUsage: true, supportsStructuredOutputs: true });
const model = { responses: openai("helper"), chats: openai.chat("helper"), compatible: compatible("helper") }[api];
const providerOptions = { openai: { user: "ann" }, reckoner: { user: "ann" } };
const about = { model, providerOptions, maxRetries: 0 };

const weather = tool({
  description: "The weather at a place.",
  inputSchema: z.object({ place: z.string() }),
  execute: async ({ place }) => `rain in ${place}`,
});

await run({
  async turns() {
    const messages = [{ role: "user", content: "How do I get to Oslo?" }];
    const first = await generateText({ ...about, system: "Be brief.", messages });
    messages.push(...first.response.messages, { role: "user", content: "And back?" });
    const second = await generateText({ ...about, system: "Be brief.", messages });
    return [first.text, second.text];
  },
  async tools() {
    const prompt = "How is the weather in Oslo?";
    return (await generateText({ ...about, prompt, tools: { weather }, stopWhen: stepCountIs(3) })).text;
  },
  async typed() {
    const output = Output.object({ schema: z.object({ to: z.string(), by: z.string() }) });
    return (await generateText({ ...about, prompt: "Plan a trip to Oslo.", output })).output;
  },
  async streamed_tools() {
    const prompt = "Watch the weather in Oslo.";
    const pieces = [];
    const result = streamText({ ...about, prompt, tools: { weather }, stopWhen: stepCountIs(3) });
    for await (const piece of result.textStream) pieces.push(piece);
    return pieces;
  },
  async stream() {
    const pieces = [];
    for await (const piece of streamText({ ...about, prompt: "Is Oslo far?" }).textStream) pieces.push(piece);
    return pieces;
  },
});
