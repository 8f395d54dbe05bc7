package dynamostore_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/dynamostore"
	"github.com/oncelib/once/store/dynamostore/internal/dynamofake"
	"github.com/oncelib/once/store/storetest"
)

type tx = *dynamostore.Tx

// effects is the table of the handlers.
const effects = "effects"

// clientOf returns a client of a server, which sends a request up to attempts times.
func clientOf(url string, attempts int) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: &url, Region: "eu-west-1",
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.RateLimiter = attempts, ratelimit.None
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		}),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	})
}

// newFake returns a server with the table of once and that of the handlers.
func newFake(tb testing.TB) (*dynamofake.Server, *dynamodb.Client) {
	tb.Helper()
	server := dynamofake.New(tb)
	client := clientOf(server.URL, 1)
	if err := dynamostore.New(client, "once").Migrate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	createEffects(tb, client)
	server.Counts()
	return server, client
}

func createEffects(tb testing.TB, client *dynamodb.Client) {
	tb.Helper()
	_, err := client.CreateTable(tb.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String(effects), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("key"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("n"), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("key"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("n"), KeyType: types.KeyTypeRange},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
}

var numbers atomic.Int64

// effect is the write of a new item of key.
func effect(key string) types.Put {
	return types.Put{TableName: aws.String(effects), Item: map[string]types.AttributeValue{
		"key": &types.AttributeValueMemberS{Value: key}, "n": &types.AttributeValueMemberS{Value: strconv.FormatInt(numbers.Add(1), 10)},
	}}
}

// count counts the items of key.
func count(tb testing.TB, client *dynamodb.Client, key string) int {
	tb.Helper()
	out, err := client.Query(context.WithoutCancel(tb.Context()), &dynamodb.QueryInput{
		TableName: aws.String(effects), ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("#k = :k"),
		ExpressionAttributeNames:  map[string]string{"#k": "key"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":k": &types.AttributeValueMemberS{Value: key}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return len(out.Items)
}

// opened is a store of the suite, and its server.
type opened struct {
	*dynamostore.Store

	server *dynamofake.Server
	client *dynamodb.Client
	all    *[]*dynamostore.Store // on the same table
}

func (o opened) Unwrap() any { return o.Store }

func harness() storetest.Harness[tx] {
	return storetest.Harness[tx]{
		Open: func(tb testing.TB) store.Store[tx] {
			tb.Helper()
			server, client := newFake(tb)
			s := dynamostore.New(client, "once")
			return opened{s, server, client, &[]*dynamostore.Store{s}}
		},
		Peer: func(_ testing.TB, s store.Store[tx]) store.Store[tx] {
			o := s.(opened)
			o.Store = dynamostore.New(o.client, "once")
			*o.all = append(*o.all, o.Store)
			return o
		},
		Advance: func(_ testing.TB, s store.Store[tx], d time.Duration) {
			o := s.(opened)
			o.server.Advance(d)
			for _, s := range *o.all {
				s.ForgetTime()
			}
		},
		Write: func(_ context.Context, t tx, key string) error { return t.Put(effect(key)) },
		Statement: func(key string) store.Statement {
			return store.Statement{SQL: "item", Args: []any{effect(key)}}
		},
		Fail: func(_ context.Context, t tx) error { return t.Put(types.Put{}) },
		Effects: func(tb testing.TB, s store.Store[tx], key string) int {
			tb.Helper()
			return count(tb, s.(opened).client, key)
		},
		Isolations:     []store.Isolation{store.ReadCommitted},
		OneLevel:       true,
		ClaimsByCommit: true,
		MaxResult:      390_000,
		ClockError:     time.Second, // a Date has no more
	}
}

func TestConformance(t *testing.T) {
	h := harness()
	h.Brief = true
	storetest.Run(t, h)
}

// TestConformanceOfPairs has any second call fail, too.
func TestConformanceOfPairs(t *testing.T) {
	testenv.Prove(t)
	storetest.Run(t, harness())
}

// TestConformanceOfOperations runs what a store without transactions must pass.
func TestConformanceOfOperations(t *testing.T) {
	testenv.Prove(t)
	storetest.RunOperations(t, harness().Operations())
}
