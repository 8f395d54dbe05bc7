package natural

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
)

// TestATokenIsUsedByOne: of eight users, who each send two requests at once, one gets what the token is
// good for. A repetition by this user succeeds.
func TestATokenIsUsedByOne(t *testing.T) {
	on(t, func(t *testing.T, g testDB) {
		for n := range 6 {
			token := fmt.Sprintf("invitation %d", n)
			g.exec(t, "insert into token (hash) values ($1)", HashToken(token))
			var errs [clients]error
			atOnce(func(client int64) {
				user := client / 2
				errs[client] = UseToken(t.Context(), g.DB, g.dialect, token, fmt.Sprint("user ", user), g.effect(token, user))
			})
			winner := g.number(t, "select client from effect where id = $1", token)
			for client, err := range errs {
				if int64(client/2) == winner && err != nil || int64(client/2) != winner && !errors.Is(err, ErrTokenUsed) {
					t.Errorf("client %d, and user %d has won: %v", client, winner, err)
				}
			}
		}
		if err := UseToken(t.Context(), g.DB, g.dialect, "invented", "user 1", g.effect("invented", 1)); !errors.Is(err, ErrTokenUnknown) {
			t.Errorf("an unknown token: %v", err)
		}
	})
}

// TestATokenIsUsedWithItsEffect: if the effect fails, or the client goes away before COMMIT, the token
// can still be used.
func TestATokenIsUsedWithItsEffect(t *testing.T) {
	on(t, func(t *testing.T, g testDB) {
		g.exec(t, "insert into token (hash) values ($1)", HashToken("invitation"))
		use := func(ctx context.Context, user string, effect func(tx *sql.Tx) error) error {
			return UseToken(ctx, g.DB, g.dialect, "invitation", user, effect)
		}
		full := errors.New("the team is full")
		write := g.effect("member", 1)
		if err := use(t.Context(), "user 1", func(tx *sql.Tx) error { return errors.Join(write(tx), full) }); !errors.Is(err, full) {
			t.Errorf("the effect fails: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if err := use(ctx, "user 2", func(tx *sql.Tx) error { defer cancel(); return write(tx) }); err == nil {
			t.Error("the client is gone, and the token is used")
		}
		for range 2 {
			if err := use(t.Context(), "user 3", write); err != nil {
				t.Errorf("the token is not there any more: %v", err)
			}
		}
		if err := use(t.Context(), "user 1", write); !errors.Is(err, ErrTokenUsed) {
			t.Errorf("another user: %v", err)
		}
	})
}
