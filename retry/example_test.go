package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/retry"
)

func ExampleDo() {
	key := once.NewKey() // one for all attempts
	err := retry.Do(context.Background(), nil, func(_ context.Context, attempt int) error {
		if attempt < 3 {
			return errors.New("no answer")
		}
		fmt.Println("charged in attempt", attempt, "with a key of", len(key), "bytes")
		return nil
	})
	fmt.Println(err)
	// Output:
	// charged in attempt 3 with a key of 36 bytes
	// <nil>
}

func ExamplePermanent() {
	declined := errors.New("card declined")
	err := retry.Do(context.Background(), nil, func(context.Context, int) error {
		return retry.Permanent(declined)
	})
	fmt.Println(err)
	// Output: card declined
}

func ExampleError() {
	policy := &retry.Policy{Attempts: 2, Base: time.Millisecond, Budget: retry.BudgetFor("mail.example.com")}
	err := retry.Do(context.Background(), policy, func(context.Context, int) error {
		return errors.New("421 try again later")
	})
	var gaveUp *retry.Error
	if errors.As(err, &gaveUp) {
		fmt.Println(gaveUp.Reason, gaveUp.Attempts, gaveUp.Last)
	}
	fmt.Println(err)
	// Output:
	// exhausted 2 421 try again later
	// retry: exhausted after 2 attempts: 421 try again later
}

// A simulation asks the policy that production uses what it would do.
func ExamplePolicy_Next() {
	policy := &retry.Policy{Base: 100 * time.Millisecond, Budget: &retry.Budget{Burst: 2}}
	for attempt := 1; ; attempt++ {
		wait, stop := policy.Next(retry.FailedAttempt{Attempt: attempt, Class: retry.ClassUnknown, Random: 0.5})
		if stop != "" {
			fmt.Println(stop)
			break
		}
		fmt.Println(wait)
	}
	// Output:
	// 50ms
	// 100ms
	// over budget
}

func ExampleBudgets() {
	show := func() {
		for _, b := range retry.Budgets() {
			if b.Destination == "payments.example.com" {
				fmt.Printf("%s: %g of %d retries left\n", b.Destination, b.Left, b.Burst)
			}
		}
	}
	budget := retry.BudgetFor("payments.example.com")
	budget.Spend(retry.ClassUnknown)
	show()
	for range 10 {
		budget.Succeed()
	}
	show()
	// Output:
	// payments.example.com: 9 of 10 retries left
	// payments.example.com: 10 of 10 retries left
}
