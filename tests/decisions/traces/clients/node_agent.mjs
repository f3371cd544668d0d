// An agent of the Vercel AI SDK that asks a mock model, calls a tool and asks again. Arguments: the SDK's major version,
// and what sends its spans: "vercel" (@vercel/otel), "json" or "protobuf" (the plain Node SDK's exporters). Where to is
// said by OTEL_EXPORTER_OTLP_ENDPOINT and its like, as in an app.
const [version, sender] = process.argv.slice(2);
const QUESTION = "How warm is it in Oslo?";
const CONTEXT = { userId: "ann", sessionId: "monday" };

let finish;
if (sender === "vercel") {
  const { registerOTel } = await import("@vercel/otel");
  const { trace } = await import("@opentelemetry/api");
  registerOTel({ serviceName: "weather-app" });
  finish = () => trace.getTracerProvider().getDelegate().forceFlush();
} else {
  const kind = sender === "json" ? "http" : "proto";
  const { OTLPTraceExporter } = await import(`@opentelemetry/exporter-trace-otlp-${kind}`);
  const { NodeTracerProvider, BatchSpanProcessor } = await import("@opentelemetry/sdk-trace-node");
  const { resourceFromAttributes } = await import("@opentelemetry/resources");
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ "service.name": "weather-app" }),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
  });
  provider.register();
  finish = () => provider.shutdown();
}

const ai = await import("ai");
const models = await import("ai/test");
const { z } = await import("zod");
const Model = { 5: models.MockLanguageModelV2, 6: models.MockLanguageModelV3, 7: models.MockLanguageModelV4 }[version];
const usage =
  version === "5"
    ? { inputTokens: 11, outputTokens: 5, totalTokens: 16 }
    : { inputTokens: { total: 11, noCache: 11 }, outputTokens: { total: 5, text: 5 } };
const reason = (name) => (version === "5" ? name : { unified: name, raw: name });
const call = { type: "tool-call", toolCallId: "call_1", toolName: "weather", input: JSON.stringify({ city: "Oslo" }) };
const answers = [
  { content: [call], finishReason: reason("tool-calls"), usage, warnings: [] },
  { content: [{ type: "text", text: "It is 18 degrees." }], finishReason: reason("stop"), usage, warnings: [] },
];
const model = new Model({ provider: "mock", modelId: "small", doGenerate: async () => answers.shift() });

let settings = { experimental_telemetry: { isEnabled: true, functionId: "weather agent", metadata: CONTEXT } };
let system = { system: "Be brief." };
if (version === "7") {
  const { OpenTelemetry } = await import("@ai-sdk/otel");
  ai.registerTelemetry(new OpenTelemetry({ runtimeContext: true }));
  const included = { userId: true, sessionId: true };
  settings = { runtimeContext: CONTEXT, telemetry: { functionId: "weather agent", includeRuntimeContext: included } };
  system = { instructions: "Be brief." };
}
const result = await ai.generateText({
  model,
  prompt: QUESTION,
  tools: {
    weather: ai.tool({
      description: "Now.",
      inputSchema: z.object({ city: z.string() }),
      execute: async () => "18 degrees",
    }),
  },
  stopWhen: ai.stepCountIs(3),
  ...system,
  ...settings,
});
console.log(result.text);
await finish();
