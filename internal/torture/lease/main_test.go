package lease

import (
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/oncelib/once/internal/testenv"
)

// TestMain is also the entry of the children: the same binary with a plan in its environment.
func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{})
	if text := os.Getenv(planEnv); text != "" {
		os.Exit(beWorker(text))
	}
	if text := os.Getenv(serviceEnv); text != "" {
		os.Exit(beService(text))
	}
	testenv.Main(m)
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
