package doctor

import (
	"context"

	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// storeChecks are the checks of a store without SQL.
var storeChecks = []check{
	{name: "store", ask: askUsable},
	{name: "volatile", ask: askVolatile},
}

func askUsable(ctx context.Context, p *examination) (Finding, error) {
	checker, ok := store.As[store.Checker](p.Store)
	if !ok {
		return Finding{}, nil
	}
	if err := checker.Check(ctx); err != nil {
		what, try := words.Advice(err.Error())
		return fail(what, words.Either(try != "", try, "the address of the server and the user that the service uses")), nil
	}
	return fine("the store works with this server and its settings"), nil
}

func askVolatile(_ context.Context, p *examination) (Finding, error) {
	v, ok := store.As[upkeep.Volatile](p.Store)
	if !ok {
		return Finding{}, nil
	}
	return warn(v.Volatile(), "use a database for operations that must not be executed twice, even when this server fails"), nil
}
