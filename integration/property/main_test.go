package property

import (
	"flag"
	"os"
	"testing"
)

// TestMain sets how much is run, unless the command line says otherwise.
func TestMain(m *testing.M) {
	checks := "1500"
	if race { // some ten times slower, and the tests of the engine look for races
		checks = "300"
	}
	if os.Getenv("ONCE_TORTURE") == "long" {
		checks = "30000"
	}
	for name, value := range map[string]string{
		"rapid.checks": checks, "rapid.steps": "250",
		"rapid.nofailfile": "true", // the seed is enough, and the tree stays clean
	} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
