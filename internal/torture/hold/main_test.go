package hold

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/oncelib/once/internal/testenv"
)

// TestMain is also the entry of the children: the same binary with a plan in its environment.
func TestMain(m *testing.M) {
	if text := os.Getenv(planEnv); text != "" {
		if err := beChild(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	_ = mysql.SetLogger(&mysql.NopLogger{}) // it tells of each connection that an outage has ended
	testenv.Main(m)
}
