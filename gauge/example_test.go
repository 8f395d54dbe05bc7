package gauge_test

import (
	"context"
	"fmt"
	"time"

	"github.com/oncelib/once/gauge"
)

func Example() {
	letters := gauge.Func(func(context.Context) ([]gauge.Value, error) {
		return []gauge.Value{{Name: "once_dead_letters", Number: 2}}, nil // a deadletter.Letters is a source, too
	})
	watch := gauge.NewWatch(gauge.Config{Every: time.Minute}, letters)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { _ = watch.Run(ctx) }()

	for range time.Tick(time.Millisecond) { // a scrape, now and then
		if v := watch.Values(); len(v) > 1 {
			fmt.Println(v[0].Name, v[0].Number)
			return
		}
	}
	// Output: once_dead_letters 2
}
