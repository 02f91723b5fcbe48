package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"

	"billing/internal/adapters/out/payment"
	"billing/internal/adapters/out/postgres"
	"billing/internal/core/domain"
	"billing/internal/core/usecase"
	"billing/internal/worker"
)

const (
	auditPageRows    = 5000
	auditPageTimeout = time.Minute
	auditListTries   = 8
	providerPage     = 1000
)

type auditFlags struct {
	output                           *choice
	rules, withProvider, withResults bool
	keep                             int
	grace                            time.Duration
}

func newAuditCommand(environ []string) *cobra.Command {
	f := &auditFlags{}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Prove that no order was charged twice or lost",
		Long: `audit checks numbered rules on the live database, with --provider also against the provider's own
list of charges, and with --results against the topic of results, both in both directions. It reads in short
read-only transactions and holds one page in memory; the two lists lie in a temporary table of its session. What was touched
within twice the charge lease is left alone. The role billing_readonly is enough.

The topic of results must not be compacted. After a restored database its older results are findings: they were told to the
world, and the database does not know of them.

Exit code 0: no findings. 1: findings, or the audit could not be completed.`,
		Example: `  billing audit
  billing audit --provider --output json
  billing audit --results
  billing audit --rules`,
	}
	f.output = outputFlag(cmd, "table", "json")
	cmd.Flags().BoolVar(&f.rules, "rules", false, "list the rules and check nothing; with JSON also their SQL")
	cmd.Flags().BoolVar(&f.withProvider, "provider", false, "compare with the provider's list of charges (BILLING_PROVIDER_URL)")
	cmd.Flags().BoolVar(&f.withResults, "results", false, "compare with the topic of results (BILLING_KAFKA_BROKERS)")
	cmd.Flags().IntVar(&f.keep, "max", 20, "findings printed of each rule; all are counted")
	cmd.Flags().DurationVar(&f.grace, "grace", -1, "leave alone what was touched within this time (default 2 x BILLING_CHARGE_LEASE)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.rules {
			return writeRules(cmd.OutOrStdout(), f.output.value)
		}
		return withStore(cmd.Context(), environ, f.parts(), func(cfg Config, store *postgres.Store) error { return f.run(cmd, cfg, store) })
	}
	return cmd
}

// parts asks for the brokers only when they are to be read.
func (f *auditFlags) parts() Parts {
	if f.withResults {
		return PartDatabase | PartProvider | PartKafka
	}
	return PartDatabase | PartProvider
}

func (f *auditFlags) run(cmd *cobra.Command, cfg Config, store *postgres.Store) error {
	audit := newAudit(cfg, store)
	audit.Keep = f.keep
	if f.grace >= 0 {
		audit.Limits.Grace = f.grace
	}
	if f.withProvider {
		if cfg.ProviderURL == "" {
			return &ConfigError{[]Fault{{"BILLING_PROVIDER_URL", "is required with --provider"}}}
		}
		provider, err := newProvider(cfg, time.Now)
		if err != nil {
			return err
		}
		defer provider.Close()
		audit.Provider = effectLister{provider}
	}
	if f.withResults {
		if len(cfg.KafkaBrokers) == 0 {
			return &ConfigError{[]Fault{{"BILLING_KAFKA_BROKERS", "is required with --results"}}}
		}
		_, transport, err := kafkaConnections(cfg)
		if err != nil {
			return err
		}
		defer transport.CloseIdleConnections()
		audit.Results = newResultReader(cfg, transport)
	}
	line := newProgressLine(cmd.ErrOrStderr())
	audit.Progress = line.show
	report, err := audit.Run(cmd.Context())
	line.clear()
	if err != nil {
		return fmt.Errorf("the audit is not complete and proves nothing: %w", err)
	}
	if err := writeReport(cmd.OutOrStdout(), f.output.value, report); err != nil {
		return err
	}
	if report.Total() > 0 {
		return &exitError{code: exitFailure} // the report has said what there is to say
	}
	return nil
}

// newAudit is the audit of this configuration, without the provider.
func newAudit(cfg Config, store usecase.AuditStore) usecase.Audit {
	return usecase.Audit{
		Store: store, PageRows: auditPageRows, Timeout: auditPageTimeout, Clock: worker.Clock{}, Random: rand.Float64,
		Backoff: domain.Backoff{Min: time.Second, Max: 30 * time.Second}, Tries: auditListTries,
		Limits: usecase.AuditLimits{Grace: 2 * cfg.ChargeLease, Retention: cfg.Retention, Account: cfg.ProviderAccount},
	}
}

// effectLister reads the provider's list for the audit.
type effectLister struct{ provider *payment.Generic }

// ListEffects implements usecase.EffectLister.
func (l effectLister) ListEffects(ctx context.Context, cursor string) ([]usecase.Effect, string, error) {
	page, next, err := l.provider.List(ctx, cursor, providerPage)
	if err != nil {
		return nil, "", err
	}
	effects := make([]usecase.Effect, len(page))
	for i, c := range page {
		effects[i] = usecase.Effect{Key: c.Key, Ref: c.ID, Status: c.Status, OrderID: c.OrderID, Amount: c.Amount}
	}
	return effects, next, nil
}

func writeRules(w io.Writer, format string) error {
	if format == "json" {
		type rule struct {
			usecase.Rule
			SQL string `json:"sql"`
		}
		rules := make([]rule, 0, len(usecase.Rules()))
		for _, r := range usecase.Rules() {
			rules = append(rules, rule{r, postgres.AuditSQL(r)})
		}
		return writeJSON(w, rules)
	}
	t := newTable(w, "RULE", "NAME", "READS", "CHECKS THAT")
	for _, r := range usecase.Rules() {
		t.row(r.ID, r.Name, r.Walk, r.Checks)
	}
	return t.Flush()
}

func writeReport(w io.Writer, format string, report usecase.AuditReport) error {
	if format == "json" {
		return writeJSON(w, struct {
			Findings int64 `json:"findings"`
			usecase.AuditReport
		}{report.Total(), report})
	}
	t := newTable(w, "RULE", "NAME", "FINDINGS", "CHECKS THAT")
	for _, r := range report.Results {
		t.row(r.ID, r.Name, r.Total, r.Checks)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	if report.Total() > 0 {
		fmt.Fprintln(w)
	}
	t = newTable(w)
	for _, r := range report.Results {
		for _, finding := range r.Findings {
			t.row(r.ID, finding.Subject, finding.Detail)
		}
		if more := r.Total - int64(len(r.Findings)); more > 0 {
			t.row(r.ID, fmt.Sprintf("and %d more", more), "")
		}
	}
	fmt.Fprintf(t, "\n%d findings in %d charges\n", report.Total(), report.Rows[usecase.WalkCharges])
	return t.Flush()
}

// progressLine shows on a terminal how far the audit is, and nothing anywhere else.
type progressLine struct {
	w    io.Writer // nil: not a terminal
	last time.Time
}

func newProgressLine(w io.Writer) *progressLine {
	if file, ok := w.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return &progressLine{w: w}
		}
	}
	return &progressLine{}
}

func (p *progressLine) show(at usecase.AuditProgress) {
	if p.w == nil || time.Since(p.last) < 100*time.Millisecond {
		return
	}
	p.last = time.Now()
	fmt.Fprintf(p.w, "\r\x1b[K%s: %d rows", at.Walk, at.Rows)
}

func (p *progressLine) clear() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
