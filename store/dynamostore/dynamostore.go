// Package dynamostore keeps operations in a table of DynamoDB. The record of an operation with its result, and
// the items that the handler of the operation writes, are written in one request TransactWriteItems.
//
//	shop := once.New(dynamostore.New(client, "once"), once.Config{})
//	r, err := once.Do(ctx, shop, op, func(ctx context.Context, tx *dynamostore.Tx) (Order, error) {
//		err := tx.Put(types.Put{TableName: &orders, Item: item, ConditionExpression: aws.String("attribute_not_exists(id)")})
//		return order, err
//	})
//
// DynamoDB has no lock that other callers can test, so an operation is claimed only by its commit (see
// [store.CommitClaimer]). Two calls of one operation may both run their handlers; one call commits, and the
// other call replays the result.
//
// The store estimates the current time from the answers of DynamoDB: docs/dynamodb.md says how exact the
// estimated times are.
package dynamostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/upkeep"
)

// Store is a [store.Store] in a table of DynamoDB. The methods of Store can be called concurrently.
type Store struct {
	client *dynamodb.Client
	table  string
	home   string // see InHomeRegion
	clock  *clock
}

var (
	_ store.Store[*Tx]    = (*Store)(nil)
	_ store.Checker       = (*Store)(nil)
	_ store.Renewer       = (*Store)(nil)
	_ upkeep.Lister       = (*Store)(nil)
	_ upkeep.Backlogger   = (*Store)(nil)
	_ upkeep.Sweeper      = (*Store)(nil)
	_ store.CommitClaimer = (*txn)(nil)
)

// New returns a store in a table, which must exist: see [Store.Migrate]. The store uses a copy of the
// client. The client may repeat requests, because a request that is repeated has only one effect.
func New(client *dynamodb.Client, table string) *Store {
	s := &Store{table: table, clock: &clock{}}
	s.client = dynamodb.New(client.Options(), func(o *dynamodb.Options) {
		o.HTTPClient = &wire{inner: o.HTTPClient, clock: s.clock}
	})
	return s
}

// InHomeRegion returns a copy of s for a table that is replicated to other regions. A program that calls
// InHomeRegion declares that all processes write to the replica in the given region. Conditions and
// transactions of DynamoDB work only within one region: if two regions execute the same operation, the
// operation has two effects.
func (s *Store) InHomeRegion(region string) *Store {
	named := *s
	named.home = region
	return &named
}

// Check implements [store.Checker]. Check also returns an error if package dynamostore does not keep its
// promises on the table: if the table has no index, or if the table is replicated and InHomeRegion was not
// called.
func (s *Store) Check(ctx context.Context) error {
	out, err := s.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.table})
	if err != nil {
		return failedRead(err)
	}
	if problem := s.problem(out.Table); problem != nil {
		return &store.Error{Kind: store.KindUnavailable, Err: fmt.Errorf("dynamostore: table %q %w", s.table, problem)}
	}
	return nil
}

// problem returns the fault of the table, or nil.
func (s *Store) problem(t *types.TableDescription) error {
	region := s.client.Options().Region
	key := t.KeySchema
	switch {
	case t.TableStatus != types.TableStatusActive && t.TableStatus != types.TableStatusUpdating:
		return fmt.Errorf("is %s: %w", t.TableStatus, store.ErrNotMigrated)
	case len(key) != 1 || aws.ToString(key[0].AttributeName) != "id" || !s.indexed(t):
		return errors.New("does not have the keys and indexes that the library \"once\" needs. Try: Store.Migrate, or create the table with the output of \"once migrate print --dialect dynamodb\"")
	case t.MultiRegionConsistency == types.MultiRegionConsistencyStrong:
		return errors.New("is a global table with strong consistency between regions, and DynamoDB has no transactions for such tables. Try: a table in one region")
	case s.home != "" && s.home != region:
		return fmt.Errorf("has its home in region %s, but this process writes in region %s. DynamoDB checks conditions only within one region, so both regions could execute the same operation. Try: package home, which sends requests to the home region", s.home, region)
	case len(t.Replicas) > 0 && s.home == "":
		return fmt.Errorf("is replicated to other regions. DynamoDB checks conditions only within one region, so each region could execute the same operation. Try: Store.InHomeRegion(%q), if all processes write in this region", region)
	}
	return nil
}

// indexed reports whether the index of the store exists and is filled.
func (s *Store) indexed(t *types.TableDescription) bool {
	for _, x := range t.GlobalSecondaryIndexes {
		if aws.ToString(x.IndexName) == index && x.IndexStatus == types.IndexStatusActive {
			return true
		}
	}
	return false
}
