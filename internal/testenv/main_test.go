//go:build linux

package testenv

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		beVictim()
	}
	Main(m)
}
