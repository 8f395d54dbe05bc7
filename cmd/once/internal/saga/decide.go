package saga

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/base/words"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/saga"
)

const withoutYes = `

Without --yes nothing is changed: it is shown what would be. Who has decided, when and why is in the audit, in
the same commit. A node that has the definition of the saga goes on with it.`

var (
	retryEntry = entry(saga.ActionRetry, "continue a stuck saga where it stopped", `Lets a saga that is stuck go on where it is, with new tries: when the cause is gone, because a program was fixed
or a service is back.`)
	skipEntry = entry(saga.ActionSkip, "continue the undo of a stuck saga without the undo of one step", `Lets a saga that is stuck behind its turn go on without the undo of --step: when a person has undone it, or when
its effect stays. The names of steps are those of once saga show.`)
	forceEntry = entry(saga.ActionForce, "record whether the call at which a saga is stuck took effect", `Says what became of the call that a saga is stuck at, when the service has told a person: with --value it has
happened, and VALUE is what the step would have returned, as JSON; with --not-made it has not happened and never
will. Then it is made again, under another key, unless the saga has turned. once saga show has the key of the call at its service.
If the service encrypts its sagas, --value needs --key-file.`)
	cancelEntry = entry(saga.ActionCancel, "undo a saga that has not passed its pivot", `Turns a saga: what has taken effect is undone, and its starter is told a failure with the code `+saga.CodeCancelled+` and
with --reason. A saga that has passed its pivot, or has ended, is refused.`)
	wakeEntry = entry(saga.ActionWake, "continue a waiting saga now", `Has a saga that waits go on now. If a node works on it, its next wait ends at once.`)
)

func entry(a saga.Action, brief, help string) cli.Entry {
	return cli.Entry{
		Quick: true, Name: "saga " + string(a), Args: "KEY", Brief: brief, Help: help + withoutYes,
		Make: func() cli.Runner { return &decide{decision: saga.Decision{Action: a}} },
	}
}

type decide struct {
	subject

	by       operate.By
	decision saga.Decision
	value    string
	key      cli.KeyFile
	notMade  bool
	yes      bool
}

func (c *decide) Flags(fs *pflag.FlagSet) {
	c.subject.Flags(fs)
	switch c.decision.Action {
	case saga.ActionForce:
		fs.StringVar(&c.value, "value", "", "the call has returned this `JSON`")
		c.key.Flags(fs)
		fs.StringVar(&c.decision.Call, "call", "", "only if the key of the call is still this `KEY` of once saga show")
		fs.BoolVar(&c.notMade, "not-made", false, "the call has not happened, and never will")
		fallthrough
	case saga.ActionSkip:
		fs.StringVar(&c.decision.Step, "step", "", "the `STEP`, required")
	case saga.ActionRetry, saga.ActionCancel, saga.ActionWake:
	}
	cli.ByFlags(fs, &c.by)
	cli.YesFlag(fs, &c.yes)
}

func (c *decide) check(args []string) error {
	try := map[saga.Action]string{saga.ActionForce: " --step STEP --value JSON", saga.ActionSkip: " --step STEP"}[c.decision.Action]
	try = "once saga " + string(c.decision.Action) + " KEY" + try + " --reason WHY --db URL"
	switch {
	case len(args) == 0 || args[0] == "":
		return cli.Usage("which saga?", try)
	case c.fs.Lookup("step") != nil && c.decision.Step == "":
		return cli.Usage("--step is missing", try+", with a STEP of once saga show KEY")
	case c.decision.Action != saga.ActionForce:
	case c.notMade == c.fs.Changed("value"):
		return cli.Usage("the outcome of the call is missing", "--value JSON if it has happened, or --not-made")
	case !c.notMade && !json.Valid([]byte(c.value)):
		return cli.Usage(fmt.Sprintf("--value %s is not JSON", words.Quoted(c.value)), `--value '"text"', --value 7, or --value '{"id":"ch_1"}'`)
	case !c.notMade:
		c.decision.Value = json.RawMessage(c.value)
	}
	return cli.CheckBy(c.by, try)
}

func (c *decide) Run(ctx context.Context, m *cli.Env, args []string) error {
	if err := c.check(args); err != nil {
		return err
	}
	encrypter, err := c.key.Encrypter()
	if err != nil {
		return err
	}
	db, err := m.Open(ctx, c.db, operate.Config{Encrypter: encrypter})
	if err != nil {
		return err
	}
	defer db.Close()
	one, err := c.find(ctx, m, db, args)
	if err != nil {
		return err
	}
	c.decision.Preview = !c.yes
	detail, err := db.Sagas.Decide(ctx, c.by, one.ID(), c.decision)
	if err != nil {
		return refused(db, "change", err)
	}
	fmt.Fprintf(m.Stdout, "%s%s: %s\n", words.Either(c.yes, "", "would do: "), titled(one), detail)
	if !c.yes {
		return m.Preview("--yes")
	}
	return nil
}
