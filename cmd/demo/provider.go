package main

import (
	"context"
	"net/http"
	"time"

	"billing/internal/paysim"
)

// What goes wrong at the provider beyond declines. Of a hundred answers about two are lost after the money
// was taken, which only the same Idempotency-Key can heal.
var (
	answerLost   = paysim.Fault{Kind: paysim.Drop, Phase: paysim.After}
	providerBusy = paysim.Fault{Kind: paysim.Answer, Status: http.StatusServiceUnavailable, RetryAfter: "1"}
)

// script is how the provider behaves. Each 503 makes a process pause for the second that it names, so there
// are few of them.
func script(seed uint64) paysim.Script {
	return paysim.Script{
		Seed: seed, Latency: paysim.Range{Min: 10 * time.Millisecond, Max: 80 * time.Millisecond}, DeclineShare: 0.03,
		Shares: []paysim.Share{{Of: 0.02, Fault: answerLost}, {Of: 0.002, Fault: providerBusy}},
	}
}

// startProvider runs the simulator in this process; its journal is a file of the private folder.
func (d *demo) startProvider() error {
	sim, err := paysim.New(paysim.Options{Now: time.Now, Journal: d.file("provider.jsonl"), Script: script(d.options.seed)})
	if err != nil {
		return err
	}
	d.atEnd(sim.Close)
	// Requests under way end with the listener, not with an interrupt.
	listener, err := sim.Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		return err
	}
	d.atEnd(listener.Close)
	d.sim, d.simURL = sim, listener.URL
	d.out.step("payment provider: declines 3 %%, loses 2 %% of its answers after the charge, is busy now and then")
	return nil
}
