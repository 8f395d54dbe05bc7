package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"
)

func (b *bench) experiment(ctx context.Context, s setting) error {
	var field []*contestant
	for _, v := range strings.Split(os.Getenv("EXP"), "|") {
		name, sql, _ := strings.Cut(v, "=")
		os.Setenv("SQL", sql)
		database, err := b.server.newDatabase(ctx)
		if err != nil {
			return err
		}
		pool, c, err := b.server.prepare(ctx, database, 100, s)
		if err != nil {
			return err
		}
		defer pool.Close()
		for _, k := range strings.Split(os.Getenv("KIND"), ",") {
			switch k {
			case "bare":
				field = append(field, &contestant{name: "bare " + name, run: func(ctx context.Context) error { return bare(ctx, pool) }})
			case "batch":
				field = append(field, &contestant{name: "batch " + name, run: c.batched})
			case "Do":
				field = append(field, &contestant{name: "Do " + name, run: c.executions})
			case "first":
				field = append(field, &contestant{name: "first " + name, run: c.first})
			}
		}
	}
	r := race{s.clients, b.rounds, b.slice, b.server.cpu(), field}
	for _, c := range field {
		if _, err := r.stint(ctx, c); err != nil {
			return err
		}
	}
	for range b.rounds {
		for _, i := range rand.Perm(len(field)) {
			l, err := r.stint(ctx, field[i])
			if err != nil {
				return err
			}
			field[i].laps = append(field[i].laps, l)
		}
	}
	for _, c := range field {
		f := c.figure()
		var w, cl, se []float64
		for i, l := range c.laps {
			o := field[0].laps[i]
			w = append(w, float64(l.wall)/float64(o.wall))
			cl = append(cl, float64(l.client)-float64(o.client))
			se = append(se, float64(l.server)-float64(o.server))
		}
		wm, _, _ := spread(w)
		cm, _, _ := spread(cl)
		sm, _, _ := spread(se)
		fmt.Printf("%-20s %6.0f/s wall x%.3f client %v (%+.1f) server %v (%+.1f)\n", c.name, f.PerSecond, wm, f.Client.Round(time.Microsecond), cm/1000, f.Server.Round(time.Microsecond), sm/1000)
	}
	return nil
}
