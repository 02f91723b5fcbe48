package migrations

import (
	"context"
	"fmt"
)

// Down takes every migration back, newest first.
func Down(ctx context.Context, url string) error {
	db, provider, err := open(url)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if _, err := provider.DownTo(ctx, 0); err != nil {
		return fmt.Errorf("take migrations back: %w", err)
	}
	return nil
}
