package torture

import (
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/oncelib/once/internal/testenv"
)

// TestMain is also the entry of the children: the same binary with a plan in its
// environment.
func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // of connections that are cut it says so
	if text := os.Getenv(planEnv); text != "" {
		os.Exit(beChild(text))
	}
	testenv.Main(m)
}
