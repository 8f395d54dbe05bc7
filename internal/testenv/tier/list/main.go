// Command list prints the tests of make prove, each as "directory name".
package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/internal/testenv/tier"
)

func main() {
	tests, err := tier.Read(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, t := range tests {
		if slices.Contains(t.Tiers, testenv.InProve) {
			fmt.Fprintln(os.Stdout, t.Dir, t.Name)
		}
	}
}
