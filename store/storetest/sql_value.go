package storetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/sql/dialect"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/sqlplane"
)

// values are the values of one row.
type values struct {
	n    *int64
	data []byte
	flag *bool
	at   time.Time
}

func (p *plane[TX]) insertValues(key string, v values) store.Statement {
	return p.text("insert into storetest_row (KEY, n, data, flag, at) values (?, ?, ?, ?, ?)", key, v.n, v.data, v.flag, dialect.StoredTime(p.db.Dialect(), v.at))
}

func testSQLValues[TX any](t *testing.T, p *plane[TX]) {
	yes, no, most, zero := true, false, int64(1<<63-1), int64(0)
	at := time.Date(2026, 3, 29, 1, 30, 0, 123_000_000, time.UTC)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	p.runners(t, func(t *testing.T, r sqlplane.Runner) {
		prefix := once.NewKey()
		for i, want := range []values{
			{&most, all, &yes, at},
			{&zero, []byte{}, &no, time.UnixMilli(1)},
			{}, // NULL
		} {
			key := fmt.Sprintf("%s Zürich '? $1 %d", prefix, i)
			if n := p.must(t, r, p.insertValues(key, want)); n != 1 {
				t.Errorf("%d rows affected by an insert", n)
			}
			var got values
			var name string
			var isNull bool // data is null: drivers read empty bytes as nil, too
			rows := 0
			query := p.text("select KEY, n, data, data is null, flag, at from storetest_row where KEY = ?", key)
			query.Rows = 1
			err := r.Query(bounded(t), query, func(row sqlplane.Row) error {
				rows++
				return row.Scan(&name, &got.n, &got.data, &isNull, &got.flag, (*dialect.Time)(&got.at))
			})
			if err != nil || rows != 1 {
				t.Fatalf("%d rows, %v", rows, err)
			}
			if name != key || !equal(got.n, want.n) || !equal(got.flag, want.flag) || !got.at.Equal(want.at) ||
				!bytes.Equal(got.data, want.data) || isNull != (want.data == nil) {
				t.Errorf("the test has written %+v, and has read %+v of %q", want, got, name)
			}
		}
		if n := p.must(t, r, p.text("update storetest_row set n = 7 where KEY >= ? and KEY < ?", prefix, prefix+"~")); n != 3 {
			t.Errorf("%d rows affected by an update of 3", n)
		}
		if n := p.must(t, r, p.text("delete from storetest_row where KEY = ?", prefix)); n != 0 {
			t.Errorf("%d rows affected by a delete of none", n)
		}
	})
}

func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// testSQLTimes proves that NOW is the same within one statement, that AGO counts from it, and that both compare with times
// that the caller has stored.
func testSQLTimes[TX any](t *testing.T, p *plane[TX]) {
	p.runners(t, func(t *testing.T, r sqlplane.Runner) {
		key := once.NewKey()
		p.must(t, r, p.text("insert into storetest_row (KEY, at, made) values (?, AGO(?), NOW)", key, time.Hour.Microseconds()))
		var at, made time.Time
		err := r.Query(bounded(t), p.text("select at, made from storetest_row where KEY = ?", key), func(row sqlplane.Row) error {
			return row.Scan((*dialect.Time)(&at), (*dialect.Time)(&made))
		})
		if err != nil || made.Sub(at) != time.Hour {
			t.Errorf("AGO of one hour is %v before NOW: %v", made.Sub(at), err)
		}
		d := p.db.Dialect()
		for _, c := range []struct {
			where string
			arg   any
			want  int64
		}{
			{"at < AGO(?)", (30 * time.Minute).Microseconds(), 1},
			{"at < AGO(?)", (90 * time.Minute).Microseconds(), 0},
			{"at < AGO(?)", (-time.Minute).Microseconds(), 1},
			{"made > AGO(?)", (-time.Minute).Microseconds(), 0},
			{"at < ?", dialect.StoredTime(d, made), 1},
			{"at < ?", dialect.StoredTime(d, at), 0},
		} {
			n := p.must(t, r, p.text("update storetest_row set n = coalesce(n, 0) + 1 where KEY = ? and "+c.where, key, c.arg))
			if n != c.want {
				t.Errorf("%s, %v: %d rows, want %d", c.where, c.arg, n, c.want)
			}
		}
	})
}

// testSQLDialect proves KEEP and UPSERT.
func testSQLDialect[TX any](t *testing.T, p *plane[TX]) {
	p.runners(t, func(t *testing.T, r sqlplane.Runner) {
		key := once.NewKey()
		for range 3 {
			p.must(t, r, p.text("insert into storetest_row (KEY, n) values (?, ?) UPSERT(KEY) n = storetest_row.n + NEW(n)", key, 10))
		}
		p.must(t, r, p.text("insert into storetest_row (KEY, n) values (?, 1), (?, 2) KEEP(n)", key, key+"b"))
		var got []int64
		err := r.Query(bounded(t), p.text("select n from storetest_row where KEY in (?, ?) order by KEY FOR UPDATE", key, key+"b"), func(row sqlplane.Row) error {
			var n int64
			err := row.Scan(&n)
			got = append(got, n)
			return err
		})
		if err != nil || !slices.Equal(got, []int64{30, 2}) {
			t.Errorf("%v, %v, want [30 2]", got, err)
		}
	})
}

// testSQLLocked proves that SKIP LOCKED leaves out the rows that another transaction has locked.
func testSQLLocked[TX any](t *testing.T, p *plane[TX]) {
	if p.OneWriter {
		return
	}
	prefix := once.NewKey()
	p.must(t, p.db.Pool(), p.insert(prefix+"a"))
	p.must(t, p.db.Pool(), p.insert(prefix+"b"))
	lock := func(r sqlplane.Runner, key string) (found []string) {
		query := p.text("select KEY from storetest_row where KEY in (?, ?) FOR UPDATE SKIP LOCKED", prefix+"a", key)
		err := r.Query(bounded(t), query, func(row sqlplane.Row) error {
			var key string
			err := row.Scan(&key)
			found = append(found, strings.TrimPrefix(key, prefix))
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return found
	}
	within := func(fn func(r sqlplane.Runner)) {
		t.Helper()
		err := p.db.Within(bounded(t), store.ReadCommitted, func(_ context.Context, r sqlplane.Runner) error { fn(r); return nil })
		if err != nil {
			t.Error(err)
		}
	}
	within(func(r sqlplane.Runner) {
		if got := lock(r, prefix+"a"); !slices.Equal(got, []string{"a"}) {
			t.Errorf("the first transaction has locked %q, want a", got)
		}
		within(func(r sqlplane.Runner) {
			if got := lock(r, prefix+"b"); !slices.Equal(got, []string{"b"}) {
				t.Errorf("the second transaction has locked %q, want b", got)
			}
		})
	})
}
