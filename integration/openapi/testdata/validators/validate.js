// Validates the documents that are named on the command line.
const parser = require("@apidevtools/swagger-parser");

(async () => {
  let failed = false;
  for (const file of process.argv.slice(2)) {
    try {
      await parser.validate(file);
    } catch (error) {
      failed = true;
      console.error(`${file}: ${error.message}`);
    }
  }
  process.exit(failed ? 1 : 0);
})();
