package usecase

import (
	"time"

	"github.com/gofrs/uuid/v5"
)

// GatePaused is how the gate of a process stands whose charging an operator stopped; GateStates are the
// other ways.
const GatePaused = "paused"

// ProcessState is a running process as the others see it.
type ProcessState struct {
	ID        uuid.UUID  `json:"id"`
	Host      string     `json:"host"`
	Version   string     `json:"version"`
	Roles     string     `json:"roles"`          // separated by commas
	Gate      string     `json:"gate,omitempty"` // open, paused, or why it is closed; empty without the role charger
	GateSince *time.Time `json:"gate_since,omitempty"`
	StartedAt time.Time  `json:"started_at"`
	SeenAt    time.Time  `json:"seen_at"`
}

// gateTrouble says of each process why it claims nothing. A pause is the switch's own trouble.
func (o Overview) gateTrouble() []Trouble {
	trouble := make([]Trouble, 0, len(o.Processes))
	for _, p := range o.Processes {
		t := Trouble{What: "charging by " + p.Host}
		if p.GateSince != nil {
			t.Since = *p.GateSince
		}
		switch GateState(p.Gate) {
		case GateUnauthorized:
			t.Why, t.Next = "gate unauthorized: the provider refuses the token (401, 403)", "replace BILLING_PROVIDER_TOKEN; a file is read again, the next probe opens the gate"
		case GateRejecting:
			t.Why, t.Next = "gate rejected: the provider refused several charges in a row, nothing more is parked for it", "check BILLING_PROVIDER_URL, then billing charges list --status parked"
		case GateFailing:
			t.Why, t.Next = "gate breaker: many charges in a row brought no answer; a few probe it every other second", "billing charges list --status requested"
		case GateThrottled:
			if o.Now.Sub(t.Since) < late {
				continue
			}
			t.Why, t.Next = "gate retry_after: the provider said when to come back", "billing charges list --status requested"
		default:
			continue
		}
		trouble = append(trouble, t)
	}
	return trouble
}
