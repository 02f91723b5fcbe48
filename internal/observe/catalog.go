package observe

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// MetricDoc describes one metric for people; the table in the README is made of these.
type MetricDoc struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"` // counter, gauge or histogram
	Labels []string `json:"labels"`
	Help   string   `json:"help"`
}

// catalog registers metrics and remembers what it registered, so that code and table cannot differ.
type catalog struct {
	reg  prometheus.Registerer
	docs []MetricDoc
}

func (c *catalog) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	c.add(v, MetricDoc{Name: name, Type: "counter", Labels: labels, Help: help})
	return v
}

func (c *catalog) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	c.add(v, MetricDoc{Name: name, Type: "gauge", Labels: labels, Help: help})
	return v
}

func (c *catalog) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	c.add(v, MetricDoc{Name: name, Type: "histogram", Labels: labels, Help: help})
	return v
}

func (c *catalog) add(collector prometheus.Collector, doc MetricDoc) {
	c.reg.MustRegister(collector)
	c.docs = append(c.docs, doc)
}

// product returns every combination of label values, so that all series of closed sets exist at 0
// before anything happens: a rate over a series that appears with its first event misses that event.
func product(sets ...[]string) [][]string {
	rows := [][]string{nil}
	for _, set := range sets {
		var longer [][]string
		for _, row := range rows {
			for _, value := range set {
				longer = append(longer, append(slices.Clone(row), value))
			}
		}
		rows = longer
	}
	return rows
}

func zeroCounters(v *prometheus.CounterVec, sets ...[]string) *prometheus.CounterVec {
	for _, values := range product(sets...) {
		v.WithLabelValues(values...)
	}
	return v
}

func zeroGauges(v *prometheus.GaugeVec, sets ...[]string) *prometheus.GaugeVec {
	for _, values := range product(sets...) {
		v.WithLabelValues(values...)
	}
	return v
}

func zeroHistograms(v *prometheus.HistogramVec, sets ...[]string) *prometheus.HistogramVec {
	for _, values := range product(sets...) {
		v.WithLabelValues(values...)
	}
	return v
}
