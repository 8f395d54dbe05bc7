package lease

import (
	"testing"

	"github.com/oncelib/once/integration/harness"
)

func TestMain(m *testing.M) { harness.Main[plan](m) }

func must(tb testing.TB, err error) { tb.Helper(); harness.Must(tb, err) }
