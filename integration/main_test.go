package integration

import (
	"testing"

	"github.com/oncelib/once/integration/harness"
)

func TestMain(m *testing.M) { harness.Main[plan](m) }
