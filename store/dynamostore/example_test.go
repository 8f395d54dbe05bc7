package dynamostore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store/dynamostore"
)

// Order is the value of an operation.
type Order struct{ ID string }

// TestOrderOfTheDocs is the code of docs/dynamodb.md.
func TestOrderOfTheDocs(t *testing.T) {
	_, client := newFake(t)
	ctx, op := t.Context(), operation("order-42")
	orders, order, item := effects, Order{ID: "42"}, effect("order-42").Item
	shop := once.New(dynamostore.New(client, "once"), once.Config{})
	r, err := once.Do(ctx, shop, op, func(ctx context.Context, tx *dynamostore.Tx) (Order, error) {
		err := tx.Put(types.Put{TableName: &orders, Item: item, ConditionExpression: aws.String("attribute_not_exists(id)")})
		return order, err
	})
	if err != nil || fmt.Sprint(r.Value) != "{42}" || count(t, client, "order-42") != 1 {
		t.Error(r, err)
	}
}
