package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/dynamostore"
	"github.com/oncelib/once/store/dynamostore/internal/dynamofake"
)

// TestCheckRefusesUnsafeTables: a table that cannot keep the promise is refused, and the error says why and what helps.
func TestCheckRefusesUnsafeTables(t *testing.T) {
	server, client := newFake(t)
	for _, c := range []struct {
		name     string
		table    string
		home     string
		strong   bool
		replicas []string
		want     string
	}{
		{name: "a table of once", table: "once"},
		{name: "in its home", table: "once", home: "eu-west-1"},
		{name: "replicated", table: "once", replicas: []string{"us-east-1"}, want: `each region could execute the same operation`},
		{name: "replicated, in its home", table: "once", home: "eu-west-1", replicas: []string{"us-east-1"}},
		{name: "replicated, in another region", table: "once", home: "us-east-1", replicas: []string{"us-east-1"}, want: "has its home in region us-east-1"},
		{name: "strong", table: "once", home: "eu-west-1", strong: true, replicas: []string{"us-east-1"}, want: "DynamoDB has no transactions for such tables"},
		{name: "of another kind", table: effects, want: "does not have the keys and indexes that the library \"once\" needs"},
		{name: "none", table: "none", want: store.ErrNotMigrated.Error()},
	} {
		if c.table != "none" {
			server.Replicate(c.table, c.strong, c.replicas...)
		}
		err := dynamostore.New(client, c.table).InHomeRegion(c.home).Check(t.Context())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if err != nil && c.table != "none" && !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%s: %v does not say what helps", c.name, err)
		}
	}
	_, err := once.Do(t.Context(), once.New(dynamostore.New(client, "none"), once.Config{Observer: once.Discard}), operation("k"), order("k"))
	if once.CodeOf(err) != once.CodeUnavailable || !errors.Is(err, store.ErrNotMigrated) {
		t.Error(err)
	}
}

// TestMigrateTogether: nodes that start together all succeed.
func TestMigrateTogether(t *testing.T) {
	server := dynamofake.New(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := dynamostore.New(clientOf(server.URL, 1), "orders").Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestLimitsAreNamedAndApplyNothing: what the service does not take is an error that names the limit and what helps, and nothing is applied.
func TestLimitsAreNamedAndApplyNothing(t *testing.T) {
	server, client := newFake(t)
	s := dynamostore.New(client, "once")
	put := func(n, size int) func(context.Context, tx) (string, error) {
		return func(_ context.Context, tx tx) (string, error) {
			for range n {
				p := effect("limits")
				p.Item["body"] = &types.AttributeValueMemberB{Value: make([]byte, size)}
				if err := tx.Put(p); err != nil {
					return "", err
				}
			}
			return "", nil
		}
	}
	for _, c := range []struct {
		name    string
		handler func(context.Context, tx) (string, error)
		want    string
	}{
		{"99 items", put(99, 1), ""},
		{"100 items", put(100, 1), "at most 100 items"},
		{"an item", put(1, 410_000), "of at most 409600"},
		{"a transaction", put(11, 400_000), "of at most 4194304"},
		{"a result", func(context.Context, tx) (string, error) { return strings.Repeat("x", 410_000), nil }, "of at most 409600"},
	} {
		before := count(t, client, "limits")
		server.Counts()
		_, err := once.Do(t.Context(), once.New(s, once.Config{Observer: once.Discard}), operation(c.name), c.handler)
		sent := server.Counts()["TransactWriteItems"]
		switch {
		case c.want == "":
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		case once.CodeOf(err) != once.CodeFailed || once.EffectOf(err) != once.EffectNotApplied || !strings.Contains(fmt.Sprint(err), c.want) || !strings.Contains(fmt.Sprint(err), "Try: "):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		case sent > 0 || count(t, client, "limits") != before:
			t.Errorf("%s: %d transactions were sent", c.name, sent)
		}
	}
}
