package saga

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/saga"
)

var listEntry = cli.Entry{
	Name: "saga list", Brief: "list sagas, each with its current step",
	Help: `Lists sagas by tenant and key, each with its current step. With --state stuck the command lists only sagas that wait for
the decision of an operator. --since and --before choose a saga by the time at which it ended, or, if it has not ended,
by the time at which it started. The value of --since and --before is a time (2026-01-31T12:00:00Z) or a duration before
now (90m, 72h) by the clock of the database.

A saga that has ended stays in the list until its record expires (saga.Config.Retain).`,
	Make: func() cli.Runner { return new(list) },
}

type list struct {
	db, tenant string
	fs         *pflag.FlagSet
	output     cli.Form
	between    cli.Between
	filter     operate.SagaFilter
}

func (c *list) Flags(fs *pflag.FlagSet) {
	c.fs = fs
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.filter.State, "state", "", "list only sagas in this `STATE`: stuck, waiting, running, completed or compensated")
	fs.StringVar(&c.filter.Definition, "saga", "", "list only sagas of the definition with this `NAME`")
	fs.StringVar(&c.tenant, "tenant", "", "list only sagas of this `TENANT`")
	c.between.Flags(fs)
	cli.WindowFlags(fs, &c.filter.Window)
	c.output.Flag(fs)
}

func (c *list) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := cli.CheckLimit(c.filter.Limit); err != nil {
		return err
	}
	switch c.filter.State {
	case "", saga.StateStuck, saga.StateWaiting, saga.StateRunning, saga.StateCompleted, saga.StateCompensated:
	default:
		return cli.Usage(fmt.Sprintf("the state %q does not exist", c.filter.State), "--state stuck, waiting, running, completed, or compensated")
	}
	if c.fs.Changed("tenant") {
		c.filter.Tenant = &c.tenant
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := c.between.Read(ctx, db, &c.filter.Since, &c.filter.Before); err != nil {
		return err
	}
	p, err := db.Sagas.List(ctx, c.filter)
	if err != nil {
		return refused(db, "read", err)
	}
	return cli.ShowPage(m, c.output, p, "sagas that match the flags", printList)
}
