// Package webhook has the commands of once webhook: webhooks to the endpoints of tenants, and webhooks of other senders.
package webhook

import (
	"errors"
	"fmt"
	"strings"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/webhook"
)

// Noun is once webhook.
var Noun = cli.Noun{
	Name: "webhook", Brief: "webhooks: events that you send to the endpoints of tenants, or receive from other services", Group: cli.GroupOperate,
	Entries: []cli.Entry{endpointsEntry, deliveriesEntry, showEntry, resendEntry, recoverEntry, disableEntry, enableEntry, verifyEntry, listenEntry},
}

// refused translates err into the command's words, if it is a refusal.
func refused(db *cli.DB, doing string, err error) error {
	if lacks := db.Lacks(err, "tables for webhooks", webhook.Migrations.Capability); lacks != nil {
		return lacks
	}
	switch {
	case errors.As(err, new(*store.Error)):
		return db.Failed(doing, err)
	case errors.Is(err, webhook.ErrNotFound):
		return cli.Nothing(fmt.Errorf("%s has no endpoint with this ID, or the tenant of the endpoint has no event with this ID. Try: once webhook endpoints --db %s", db.Name, db.Paste))
	case errors.Is(err, webhook.ErrDisabled):
		return fmt.Errorf("the endpoint is disabled, so no event can be sent to the endpoint. Try: once webhook enable ENDPOINT --reason WHY --db %s", db.Paste)
	}
	what, try := words.Advice(err.Error())
	return fmt.Errorf("%s. Try: %s", strings.TrimSuffix(strings.TrimPrefix(what, "webhook: "), "."), words.Either(try != "", try, "once webhook endpoints --db "+db.Paste))
}
