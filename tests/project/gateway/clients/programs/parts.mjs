// Prints a line for each part: its name, what it returned, and why it failed where it did.
export async function run(parts) {
  for (const [name, part] of Object.entries(parts)) {
    let value = null;
    let fault = null;
    try {
      value = await part();
    } catch (error) {
      fault = String(error.stack).slice(0, 3000);
    }
    console.log("part:", JSON.stringify([name, value, fault]));
  }
}
