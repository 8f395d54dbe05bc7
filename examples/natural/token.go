package natural

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"

	"github.com/oncelib/once/store/sqlplane"
)

// Why a token cannot be used.
var (
	ErrTokenUnknown = errors.New("the token does not exist, or has expired")
	ErrTokenUsed    = errors.New("another user has used this token")
)

var (
	useToken = statement{
		postgres: `update token set used_by = $1 where hash = $2 and used_by is null`,
		mysql:    `update token set used_by = ? where hash = ? and used_by is null`,
	}
	tokenUser = statement{
		postgres: `select used_by from token where hash = $1 and used_by is not null`,
		mysql:    `select used_by from token where hash = ? and used_by is not null`,
	}
)

// UseToken has its effect for one user, once. It succeeds again for the same user, without the
// effect. The table is
//
//	create table token (hash char(64) primary key, used_by varchar(50))
//
// It has the hash of a token, so that a person who reads the table can use none.
func UseToken(ctx context.Context, db *sql.DB, d sqlplane.Dialect, token, user string, effect func(tx *sql.Tx) error) error {
	hash := HashToken(token)
	return inTx(ctx, db, func(tx *sql.Tx) error {
		used, err := isChanged(tx.ExecContext(ctx, useToken.on(d), user, hash))
		if err != nil {
			return err
		}
		if used {
			return effect(tx)
		}
		var by string
		switch err := tx.QueryRowContext(ctx, tokenUser.on(d), hash).Scan(&by); {
		case errors.Is(err, sql.ErrNoRows):
			return ErrTokenUnknown
		case err == nil && by != user:
			return ErrTokenUsed
		default:
			return err // nil: this user has used it before
		}
	})
}

// HashToken is what the table has of a token. A token is random and long, so it needs no salt.
func HashToken(token string) string {
	h := sha256.Sum256([]byte(token))
	return hex.EncodeToString(h[:])
}
