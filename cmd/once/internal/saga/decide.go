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

Without --yes nothing is changed: the command only prints the change. The commit of the change also writes the
operator, the time and the reason into the audit. After the change, a node that has the definition of the saga continues
the saga.`

var (
	retryEntry = entry(saga.ActionRetry, "continue a stuck saga where it stopped", `Continues a stuck saga at the step where it is stuck, with new attempts. Use this command when the cause of
the failure is repaired: for example a program was fixed, or a service is available again.`)
	skipEntry = entry(saga.ActionSkip, "continue the undo of a stuck saga without the undo of one step", `Continues the undo of a stuck saga without the undo of --step. Use this command when you have undone the
step yourself, or when the effect of the step should stay. --step is the name of a step as "once saga show" prints it.`)
	forceEntry = entry(saga.ActionForce, "record whether the call at which a saga is stuck took effect", `Records the
outcome of the call at which a saga is stuck. First find out the outcome at the called service. --value means that the
call took effect; VALUE is the result that the step would have returned, as JSON. --not-made means that the call did not
take effect and never will. Then the saga makes the call again with another key, unless the saga is already undoing its
steps. "once saga show" prints the key of the call at the called service. If the service encrypts its sagas, --value
needs --key-file.`)
	cancelEntry = entry(saga.ActionCancel, "undo a saga that has not passed its pivot, the step after which no undo is possible", `Cancels a saga: the saga undoes the steps that took effect, and the starter of the saga receives a failure with the code `+saga.CodeCancelled+`
and with the text of --reason. The command refuses a saga that has ended, or that has passed its pivot (the step after
which a saga can only go forward).`)
	wakeEntry = entry(saga.ActionWake, "continue a waiting saga now", `Continues a waiting saga now. If a node is working on the saga, the next wait of the saga ends at once.`)
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
		fs.StringVar(&c.value, "value", "", "the call took effect, and returned this `JSON`")
		c.key.Flags(fs)
		fs.StringVar(&c.decision.Call, "call", "", "change the saga only if the key of the call is still this `KEY`, as \"once saga show\" printed it")
		fs.BoolVar(&c.notMade, "not-made", false, "the call did not take effect, and never will")
		fallthrough
	case saga.ActionSkip:
		fs.StringVar(&c.decision.Step, "step", "", "the name of the `STEP` (required)")
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
		return cli.Usage("the KEY of the saga is missing", try)
	case c.fs.Lookup("step") != nil && c.decision.Step == "":
		return cli.Usage("--step is missing", try+", with a STEP of once saga show KEY")
	case c.decision.Action != saga.ActionForce:
	case c.notMade == c.fs.Changed("value"):
		return cli.Usage("no flag gives the outcome of the call", "--value JSON if the call took effect, or --not-made")
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
