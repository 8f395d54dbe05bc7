package doctor

import (
	"context"
	"fmt"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/internal/sql/dialect"
)

// homeChecks are the checks of homes. They do not apply to a database that belongs to no region.
var homeChecks = []check{{name: "home_moves", ask: askHomeMoves, table: "once_home_move"}}

// askHomeMoves finds tenants that are being moved to another region. The database does not show whether the process that moves them is still alive.
func askHomeMoves(ctx context.Context, p *examination) (Finding, error) {
	var n int
	var tenant, target string
	err := p.DB.QueryRowContext(ctx, dialect.Text(p.Dialect, "select (select count(*) from once_home_move), tenant, target from once_home_move order by tenant limit 1")).Scan(&n, &tenant, &target)
	if err != nil || n == 0 {
		return Finding{}, none(err)
	}
	return warn(words.Counted(n, "tenant is", "tenants are")+" being moved to another region, and this region executes no operations of these tenants. If no once home move is running now, the move was killed",
		fmt.Sprintf("complete the move: once home move %s %s --regions FILE", words.Quoted(tenant), words.Quoted(target))), nil
}
