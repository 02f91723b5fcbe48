package usecase

import (
	"context"
	"fmt"

	"github.com/gofrs/uuid/v5"
)

// Viewer is who looks at charges.
type Viewer struct {
	Client   string
	Operator bool // sees every charge; anybody else sees only what it posted
}

// scope is the client whose charges are shown, empty for all. A viewer without a name must not be taken
// for one who sees everything.
func (v Viewer) scope() (string, error) {
	if v.Operator {
		return "", nil
	}
	if v.Client == "" {
		return "", ErrNoCharge
	}
	return v.Client, nil
}

// MaySee reports whether a viewer may see a charge that client posted.
func (v Viewer) MaySee(client string) bool {
	return v.Operator || (client != "" && client == v.Client)
}

// Read shows charges to clients of the API.
type Read struct {
	Charges ChargeReader
}

// Charge returns one charge with its latest attempts and moves. ErrNoCharge also stands for a charge that
// is not the viewer's to see.
func (r Read) Charge(ctx context.Context, v Viewer, id uuid.UUID) (ChargeDossier, error) {
	client, err := v.scope()
	if err != nil {
		return ChargeDossier{}, err
	}
	d, err := r.Charges.ReadCharge(ctx, client, id)
	if err != nil {
		return ChargeDossier{}, fmt.Errorf("read a charge: %w", err)
	}
	return d, nil
}

// List returns a page of the charges that the viewer may see.
func (r Read) List(ctx context.Context, v Viewer, q ChargeQuery) (ChargePage, error) {
	var err error
	if q.Client, err = v.scope(); err != nil {
		return ChargePage{}, err
	}
	page, err := r.Charges.ReadCharges(ctx, q)
	if err != nil {
		return ChargePage{}, fmt.Errorf("list charges: %w", err)
	}
	return page, nil
}
