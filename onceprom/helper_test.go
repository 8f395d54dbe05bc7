package onceprom_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/oncelib/once/onceprom"
	"github.com/oncelib/once/store/memstore"
)

type tx = *memstore.Tx

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put counts in the row of key.
func put(key string) func(context.Context, tx) (string, error) {
	return func(_ context.Context, t tx) (string, error) {
		v, _, err := t.Get(key)
		if err != nil {
			return "", err
		}
		n, _ := strconv.Atoi(v)
		return "done", t.Put(key, strconv.Itoa(n+1))
	}
}

// scrape is what a server gets: values by name{labels}, of histograms their counts.
func scrape(t *testing.T, m *onceprom.Metrics) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for name, family := range gather(t, m) {
		for _, series := range family.GetMetric() {
			var labels []string
			for _, l := range series.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := series.GetCounter().GetValue() + series.GetGauge().GetValue() + float64(series.GetHistogram().GetSampleCount())
			found[fmt.Sprintf("%s{%s}", strings.TrimPrefix(name, "once_"), strings.Join(labels, ","))] = value
		}
	}
	return found
}

func gather(t *testing.T, m *onceprom.Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	must(t, registry.Register(m))
	families, err := registry.Gather()
	must(t, err)
	found := map[string]*dto.MetricFamily{}
	for _, f := range families {
		found[f.GetName()] = f
	}
	return found
}

// only leaves what begins with one of prefixes and is not 0.
func only(found map[string]float64, prefixes ...string) map[string]float64 {
	kept := map[string]float64{}
	for name, v := range found {
		if v != 0 && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			kept[name] = v
		}
	}
	return kept
}

func want(t *testing.T, got, want map[string]float64) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%v, want\n%v", got, want)
	}
}
