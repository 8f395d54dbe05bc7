package dynamostore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/dynamostore"
	"github.com/oncelib/once/store/dynamostore/internal/dynamofake"
)

// realTable names the environment variable with a table of a service, which TestRealTable creates if it does not exist. The region and the
// credentials are those of AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. realEndpoint names the one with the
// address of another server than that of AWS.
const (
	realTable    = "ONCE_DYNAMODB_TABLE"
	realEndpoint = "ONCE_DYNAMODB_ENDPOINT"
)

type value = types.AttributeValue

func s(text string) value { return &types.AttributeValueMemberS{Value: text} }
func n(text string) value { return &types.AttributeValueMemberN{Value: text} }
func b(text string) value { return &types.AttributeValueMemberB{Value: []byte(text)} }

// asked is a request of the table below, and what the fake answers.
type asked struct {
	name, want string
	ask        func(ctx context.Context, c *dynamodb.Client, table, id string) (string, error)
}

// put writes an item under a condition.
func put(condition string, it map[string]value, names map[string]string, values map[string]value) func(context.Context, *dynamodb.Client, string, string) (string, error) {
	return func(ctx context.Context, c *dynamodb.Client, table, id string) (string, error) {
		in := &dynamodb.PutItemInput{TableName: &table, Item: map[string]value{"id": s(id)}, ExpressionAttributeNames: names, ExpressionAttributeValues: values}
		maps.Copy(in.Item, it)
		if condition != "" {
			in.ConditionExpression, in.ReturnValuesOnConditionCheckFailure = &condition, types.ReturnValuesOnConditionCheckFailureAllOld
		}
		_, err := c.PutItem(ctx, in)
		return "", err
	}
}

func update(expression, condition string, names map[string]string, values map[string]value) func(context.Context, *dynamodb.Client, string, string) (string, error) {
	return func(ctx context.Context, c *dynamodb.Client, table, id string) (string, error) {
		in := &dynamodb.UpdateItemInput{TableName: &table, Key: map[string]value{"id": s(id)}, UpdateExpression: &expression, ExpressionAttributeNames: names, ExpressionAttributeValues: values}
		if condition != "" {
			in.ConditionExpression = &condition
		}
		_, err := c.UpdateItem(ctx, in)
		return "", err
	}
}

func get(ctx context.Context, c *dynamodb.Client, table, id string) (string, error) {
	out, err := c.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: map[string]value{"id": s(id)}, ConsistentRead: aws.Bool(true)})
	if err != nil {
		return "", err
	}
	return shown(out.Item), nil
}

// transact writes the item of id and one beside it, each under the condition that the item is absent.
func transact(token string, ids ...string) func(context.Context, *dynamodb.Client, string, string) (string, error) {
	return func(ctx context.Context, c *dynamodb.Client, table, id string) (string, error) {
		in := &dynamodb.TransactWriteItemsInput{}
		if token != "" {
			in.ClientRequestToken = aws.String(id[len(id)-20:] + token)
		}
		for _, suffix := range ids {
			in.TransactItems = append(in.TransactItems, types.TransactWriteItem{Put: &types.Put{
				TableName: &table, Item: map[string]value{"id": s(id + suffix), "data": s("t")}, ConditionExpression: aws.String("attribute_not_exists(#id)"),
				ExpressionAttributeNames: map[string]string{"#id": "id"},
			}})
		}
		_, err := c.TransactWriteItems(ctx, in)
		return "", err
	}
}

func query(condition string, values map[string]value) func(context.Context, *dynamodb.Client, string, string) (string, error) {
	return func(ctx context.Context, c *dynamodb.Client, table, id string) (string, error) {
		values[":p"] = s("part " + id[:20])
		in := &dynamodb.QueryInput{
			TableName: &table, IndexName: aws.String("once_due"), KeyConditionExpression: &condition, Limit: aws.Int32(1),
			ExpressionAttributeNames: map[string]string{"#part": "part", "#due": "due"}, ExpressionAttributeValues: values,
		}
		var found []string
		for {
			out, err := c.Query(ctx, in)
			if err != nil {
				return "", err
			}
			for _, it := range out.Items {
				found = append(found, string(it["due"].(*types.AttributeValueMemberB).Value)+shown(it))
			}
			if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
				return strings.Join(found, " "), nil
			}
		}
	}
}

func indexed(suffix, due string) func(context.Context, *dynamodb.Client, string, string) (string, error) {
	return func(ctx context.Context, c *dynamodb.Client, table, id string) (string, error) {
		_, err := c.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: map[string]value{
			"id": s(id + suffix), "part": s("part " + id[:20]), "due": b(due), "name": s("n"), "body": s("not projected"),
		}})
		return "", err
	}
}

// shown is what of an item can be compared.
func shown(it map[string]value) string {
	var all []string
	for name, v := range it {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			if name != "id" && name != "part" {
				all = append(all, name+"="+v.Value)
			}
		case *types.AttributeValueMemberN:
			all = append(all, name+"="+v.Value)
		}
	}
	slices.Sort(all)
	return "{" + strings.Join(all, " ") + "}"
}

// outcome is what an error says.
func outcome(text string, err error) string {
	var canceled *types.TransactionCanceledException
	var condition *types.ConditionalCheckFailedException
	var api smithy.APIError
	switch {
	case err == nil:
		return "ok " + text
	case errors.As(err, &canceled):
		var codes []string
		for _, r := range canceled.CancellationReasons {
			codes = append(codes, aws.ToString(r.Code))
		}
		return "cancelled: " + strings.Join(codes, ", ")
	case errors.As(err, &condition):
		return "condition " + shown(condition.Item)
	case errors.As(err, &api):
		return api.ErrorCode()
	}
	return fmt.Sprint("no answer: ", err)
}

var (
	names  = map[string]string{"#id": "id", "#until": "until"}
	state  = map[string]string{"#state": "state", "#fence": "fence"}
	absent = "attribute_not_exists(#id) OR #until <= :v0"
)

// requests are what dynamostore sends, and what it must be refused, in order, on one item.
var requests = []asked{
	{"absent", "ok {}", get},
	{"put if absent", "ok ", put(absent, map[string]value{"state": n("2"), "until": n("50"), "data": s("d"), "name": s("a")}, names, map[string]value{":v0": n("40")})},
	{"put if absent, and it is there", "condition {data=d name=a state=2 until=50}", put(absent, nil, names, map[string]value{":v0": n("49")})},
	{"put if expired", "ok ", put(absent, map[string]value{"state": n("1"), "fence": n("9223372036854775806"), "data": s("d"), "name": s("a"), "trace": s("t")}, names, map[string]value{":v0": n("50")})},
	{"put where until is missing", "condition {data=d fence=9223372036854775806 name=a state=1 trace=t}", put(absent, nil, names, map[string]value{":v0": n("99")})},
	{"update by fence", "ok ", update("SET #fence = :v2 REMOVE #trace", "#fence = :v0 AND #state <> :v1", map[string]string{"#state": "state", "#fence": "fence", "#trace": "trace"},
		map[string]value{":v0": n("9223372036854775806"), ":v1": n("2"), ":v2": n("3")})},
	{"updated", "ok {data=d fence=3 name=a state=1}", get},
	{"update by another fence", "condition {}", update("SET #fence = :v1", "#fence = :v0", map[string]string{"#fence": "fence"}, map[string]value{":v0": n("4"), ":v1": n("5")})},
	{"update of what a lease must be over of, and has none", "condition {}", update("SET #fence = :v1", "#lease <= :v0", map[string]string{"#fence": "fence", "#lease": "lease"}, map[string]value{":v0": n("4"), ":v1": n("5")})},
	{"update, three conditions", "ok ", update("SET #state = :v3", "#state = :v0 AND #fence = :v1 AND #fence >= :v2", state, map[string]value{":v0": n("1"), ":v1": n("3"), ":v2": n("3"), ":v3": n("4")})},
	{"remove two", "ok ", update("REMOVE #data, #name", "", map[string]string{"#data": "data", "#name": "name"}, nil)},
	{"two are removed", "ok {fence=3 state=4}", get},
	{"a placeholder that nothing uses", "ValidationException", put(absent, nil, map[string]string{"#id": "id", "#until": "until", "#more": "more"}, map[string]value{":v0": n("40")})},
	{"a placeholder that is missing", "ValidationException", put(absent, nil, names, map[string]value{":v1": n("40")})},
	{"a syntax error", "ValidationException", put("#id = = :v0", nil, map[string]string{"#id": "id"}, map[string]value{":v0": n("40")})},
	{"a large item", "ValidationException", put("", map[string]value{"body": s(strings.Repeat("x", 410_000))}, nil, nil)},
	{"an item just so large", "ok ", put("", map[string]value{"body": b(strings.Repeat("x", 409_000))}, nil, nil)},
	{"no such table", "ResourceNotFoundException", func(ctx context.Context, c *dynamodb.Client, table, id string) (string, error) {
		return get(ctx, c, table+"-none", id)
	}},
	{"transaction", "ok ", transact("one", "a", "b")},
	{"transaction, sent again", "ok ", transact("one", "a", "b")},
	{"token of another transaction", "IdempotentParameterMismatchException", transact("one", "a", "c")},
	{"transaction, one is there", "cancelled: None, ConditionalCheckFailed", transact("", "c", "b")},
	{"nothing of it was applied", "ok {}", func(ctx context.Context, c *dynamodb.Client, table, id string) (string, error) {
		return get(ctx, c, table, id+"c")
	}},
	{"transaction, both are there", "cancelled: ConditionalCheckFailed, ConditionalCheckFailed", transact("two", "a", "b")},
	{"transaction on one item twice", "ValidationException", transact("", "d", "d")},
	{"index", "ok ", indexed("y", "\x00b")},
	{"index", "ok ", indexed("z", "\xffc")},
	{"index", "ok ", indexed("x", "\x00a")},
	{"query in the order of bytes", "ok \x00a{name=n} \x00b{name=n} \xffc{name=n}", query("#part = :p AND #due >= :low", map[string]value{":low": b("\x00")})},
	{"query from", "ok \x00b{name=n} \xffc{name=n}", query("#part = :p AND #due >= :low", map[string]value{":low": b("\x00a\x00")})},
	{"query between", "ok \x00a{name=n} \x00b{name=n}", query("#part = :p AND #due BETWEEN :low AND :high", map[string]value{":low": b("\x00"), ":high": b("\x00b")})},
	{"delete if", "ok ", func(ctx context.Context, c *dynamodb.Client, table, id string) (string, error) {
		_, err := c.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: &table, Key: map[string]value{"id": s(id + "a")}, ConditionExpression: aws.String("#data = :v0"),
			ExpressionAttributeNames: map[string]string{"#data": "data"}, ExpressionAttributeValues: map[string]value{":v0": s("t")},
		})
		return "", err
	}},
	{"deleted", "ok {}", func(ctx context.Context, c *dynamodb.Client, table, id string) (string, error) {
		return get(ctx, c, table, id+"a")
	}},
}

// differences are the answers of other servers that are not those of the service, by the names of the requests.
var differences = map[string]map[string]string{
	"fake": {},
	"dynalite": { // it has no transactions, and does not return what is in the way
		"put if absent, and it is there": "condition {}",
		"put where until is missing":     "condition {}",
		"transaction":                    "UnknownOperationException",
		"transaction, sent again":        "UnknownOperationException",
		"token of another transaction":   "UnknownOperationException",
		"transaction, one is there":      "UnknownOperationException",
		"transaction, both are there":    "UnknownOperationException",
		"transaction on one item twice":  "UnknownOperationException",
		"delete if":                      "condition {}",
	},
	"minidyn": { // it does not return what is in the way, removes none of two attributes, and knows no sizes and no tokens
		"put if absent, and it is there": "condition {}",
		"put where until is missing":     "condition {}",
		"updated":                        "ok {data=d fence=3 name=a state=1 trace=t}",
		"two are removed":                "ok {data=d fence=3 name=a state=4 trace=t}",
		"a large item":                   "ok ",
		"transaction, sent again":        "cancelled: ConditionalCheckFailed, None",
		"token of another transaction":   "cancelled: ConditionalCheckFailed, None",
		"transaction, both are there":    "cancelled: ConditionalCheckFailed, None",
	},
}

// TestTheFake: what the fake answers is what the table says.
func TestTheFake(t *testing.T) {
	url := dynamofake.New(t).URL
	compare(t, "fake", url)
	duplicates(t, clientOf(url, 1), "once")
}

// TestRealTable: the service answers as the fake does, and duplicates of an operation have one effect there.
func TestRealTable(t *testing.T) {
	table := os.Getenv(realTable)
	if table == "" {
		t.Skip("skipped: no real table. Try: " + realTable + "=once-test, see docs/dynamodb.md")
	}
	client := dynamodb.New(dynamodb.Options{
		Region: os.Getenv("AWS_REGION"),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), SessionToken: os.Getenv("AWS_SESSION_TOKEN")}, nil
		}),
	}, func(o *dynamodb.Options) {
		if url := os.Getenv(realEndpoint); url != "" {
			o.BaseEndpoint = &url
		}
	})
	if err := dynamostore.New(client, table).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	requested(t, "real", client, table)
	duplicates(t, client, table)
}

// duplicates has 20 nodes execute one operation, each with an item of its own, of which one is to be there.
func duplicates(t *testing.T, client *dynamodb.Client, table string) {
	t.Helper()
	op := operation(once.NewKey())
	item := func(i int) string { return fmt.Sprintf("%s effect %d", op.Key, i) }
	const nodes = 20
	var all sync.WaitGroup
	for i := range nodes {
		e := once.New(dynamostore.New(client, table), once.Config{Observer: once.Discard})
		all.Go(func() {
			_, err := once.Do(t.Context(), e, op, func(_ context.Context, tx tx) (string, error) {
				return "", tx.Put(types.Put{TableName: &table, Item: map[string]value{"id": s(item(i))}})
			})
			if code := once.CodeOf(err); err != nil && code != once.CodeConflict && code != once.CodeUnavailable {
				t.Error(err)
			}
		})
	}
	all.Wait()
	effects := 0
	for i := range nodes {
		out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: map[string]value{"id": s(item(i))}, ConsistentRead: aws.Bool(true)})
		if err != nil {
			t.Error(err)
		} else if out.Item != nil {
			effects++
		}
	}
	if effects != 1 {
		t.Errorf("%d effects of %d duplicates", effects, nodes)
	}
}

// TestServersAgreeWithTheFake: dynalite and minidyn answer the table as the fake does, but for the differences that are named.
func TestServersAgreeWithTheFake(t *testing.T) {
	testenv.Prove(t)
	t.Run("dynalite", func(t *testing.T) {
		testenv.Need(t, "node", "npm")
		dir := copied(t, "testdata/dynalite")
		run(t, dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
		compare(t, "dynalite", serve(t, dir, "node", "server.js"))
	})
	t.Run("minidyn", func(t *testing.T) {
		dir := copied(t, "testdata/minidyn")
		for _, name := range []string{"go.mod", "go.sum"} {
			if err := os.Rename(filepath.Join(dir, name+".txt"), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		run(t, dir, "go", "build", "-o", "minidyn", ".")
		compare(t, "minidyn", serve(t, dir, "./minidyn"))
	})
}

func copied(t *testing.T, from string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func run(t *testing.T, dir string, command ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s\nTry: a network from which the registries of npm and Go can be reached", command, err, out)
	}
}

// serve starts a server that writes its address to its output.
func serve(t *testing.T, dir string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(url)
}

// compare sends the requests to a server and wants the answers of the table.
func compare(t *testing.T, server, url string) {
	t.Helper()
	client := clientOf(url, 1)
	var in dynamodb.CreateTableInput
	if err := json.Unmarshal([]byte(dynamostore.Definition("once")), &in); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateTable(t.Context(), &in); err != nil {
		t.Fatal(err)
	}
	requested(t, server, client, "once")
}

func requested(t *testing.T, server string, client *dynamodb.Client, table string) {
	t.Helper()
	id := once.NewKey()
	met := map[string]bool{}
	for _, r := range requests {
		want := r.want
		if d, ok := differences[server][r.name]; ok {
			want, met[r.name] = d, true
		}
		if got := outcome(r.ask(t.Context(), client, table, id)); got != want {
			t.Errorf("%s: %s: %q, want %q", server, r.name, got, want)
		}
	}
	if len(met) != len(differences[server]) {
		t.Errorf("%s: differences are named that are not in the table", server)
	}
}
