// LangChain.js's ChatOpenAI.
import { HumanMessage, SystemMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { z } from "zod";
import { run } from "./parts.mjs";

const [url, key] = process.argv.slice(2);
const model = new ChatOpenAI({
  model: "helper",
  apiKey: key,
  configuration: { baseURL: url, defaultHeaders: { "X-Reckoner-Episode": "journey" } },
  user: "ann",
});
const weather = tool(({ place }) => `rain in ${place}`, {
  name: "weather",
  description: "The weather at a place.",
  schema: z.object({ place: z.string() }),
});

await run({
  async turns() {
    const messages = [new SystemMessage("Be brief."), new HumanMessage("How do I get to Oslo?")];
    const first = await model.invoke(messages);
    const second = await model.invoke([...messages, first, new HumanMessage("And back?")]);
    return [first.content, second.content];
  },
  async tools() {
    const withTools = model.bindTools([weather]);
    const messages = [new HumanMessage("How is the weather in Oslo?")];
    const asked = await withTools.invoke(messages);
    const results = await Promise.all(asked.tool_calls.map((call) => weather.invoke(call)));
    return (await withTools.invoke([...messages, asked, ...results])).content;
  },
  async typed() {
    const Trip = z.object({ to: z.string(), by: z.string() });
    return await model.withStructuredOutput(Trip, { name: "Trip" }).invoke("Plan a trip to Oslo.");
  },
  async stream() {
    const pieces = [];
    for await (const chunk of await model.stream("Is Oslo far?")) if (chunk.content) pieces.push(chunk.content);
    return pieces;
  },
});
