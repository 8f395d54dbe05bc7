package torture

import (
	"testing"

	"github.com/oncelib/once/internal/torture/harness"
)

func TestMain(m *testing.M) { harness.Main[plan](m) }
