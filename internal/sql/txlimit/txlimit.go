// Package txlimit ends a transaction of database/sql that has reached a time limit, where no server enforces the limit. The limits
// are for an idle transaction, for one statement, and for the whole transaction.
package txlimit

import (
	"fmt"
	"time"
)

// Limits are the time limits of a transaction. Zero means no limit.
type Limits struct {
	Idle      time.Duration // between two statements while a handler has the transaction; an open result that is not being read counts, too
	Statement time.Duration // for one statement: the time of the driver for the statement and for its rows
	Whole     time.Duration // for the whole transaction, even during a statement
}

// TimeoutError says which of its [Limits] a transaction has reached.
type TimeoutError struct {
	Limit string // idle, statement or whole
	After time.Duration
}

func (e *TimeoutError) Error() string {
	switch e.Limit {
	case limitIdle:
		return fmt.Sprintf("terminating the transaction due to idle-in-transaction timeout: no statement for %v. Try: a longer Timeouts.Idle, or less time between two statements", e.After)
	case limitStatement:
		return fmt.Sprintf("canceling statement due to statement timeout: %v. Try: a longer Timeouts.Statement, or an index", e.After)
	}
	return fmt.Sprintf("terminating the transaction due to transaction timeout: %v", e.After)
}

// SQLState returns the SQLSTATE of the same timeout in PostgreSQL.
func (e *TimeoutError) SQLState() string {
	return map[string]string{limitIdle: "25P03", limitStatement: "57014", limitWhole: "25P04"}[e.Limit]
}

const (
	limitIdle      = "idle"
	limitStatement = "statement"
	limitWhole     = "whole"
)

// Whole reports whether the whole transaction has reached its limit.
func (e *TimeoutError) Whole() bool { return e.Limit == limitWhole }
