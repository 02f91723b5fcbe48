package usecase_test

import (
	"strings"
	"testing"

	"billing/internal/core/usecase"
)

func TestStartIsNeverLate(t *testing.T) {
	t.Parallel()
	at := func(next int64) *usecase.Position { return &usecase.Position{Next: next} }
	log := usecase.Bounds{Start: 10, End: 100}
	for name, tc := range map[string]struct {
		stored    *usecase.Position
		committed int64
		log       usecase.Bounds
		next      int64
		reread    int64
		halted    string // part of it
		gap       string // part of it
	}{
		"nothing known":                     {nil, usecase.NoOffset, log, 10, 0, "", ""},
		"only kafka":                        {nil, 50, log, 50, 0, "", ""},
		"only the database":                 {at(50), usecase.NoOffset, log, 10, 0, "", ""},
		"both agree":                        {at(50), 50, log, 50, 0, "", ""},
		"kafka behind":                      {at(50), 40, log, 40, 0, "", ""},
		"database behind: it was restored":  {at(40), 50, log, 40, 50, "", ""},
		"an older mark is kept":             {&usecase.Position{Next: 40, RereadBelow: 70}, 50, log, 40, 70, "", ""},
		"retention passed the position":     {at(5), 5, log, 5, 0, "starts at 10", "starts at 10"},
		"retention passed kafka's offset":   {nil, 5, log, 5, 0, "starts at 10", "starts at 10"},
		"topic made anew, offset kept":      {at(500), 500, log, 500, 0, "beyond", "beyond"},
		"database beyond, kafka inside":     {at(500), 50, log, 50, 0, "beyond", "beyond"},
		"topic made anew, no offset":        {at(500), usecase.NoOffset, log, 10, 0, "", "beyond"},
		"halted stays halted":               {&usecase.Position{Next: 50, Halted: "brake"}, 50, log, 50, 0, "brake", ""},
		"accepted: the log's start":         {&usecase.Position{Next: 500, Halted: "x", Gap: "x", GapAccepted: true}, 500, log, 10, 0, "", ""},
		"accepted: the mark is kept":        {&usecase.Position{Next: 5, RereadBelow: 70, Gap: "x", GapAccepted: true}, 5, log, 10, 70, "", ""},
		"a gap that was seen stays visible": {&usecase.Position{Next: 50, Gap: "old"}, 50, log, 50, 0, "", "old"},
		"at the very end":                   {at(100), 100, log, 100, 0, "", ""},
		"empty topic":                       {nil, usecase.NoOffset, usecase.Bounds{}, 0, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := usecase.ChooseStart(tc.stored, tc.committed, tc.log)
			if got.Next != tc.next || got.RereadBelow != tc.reread {
				t.Errorf("next %d, reread below %d; want %d, %d", got.Next, got.RereadBelow, tc.next, tc.reread)
			}
			if !matches(got.Halted, tc.halted) || !matches(got.Gap, tc.gap) {
				t.Errorf("halted %q, gap %q; want %q, %q", got.Halted, got.Gap, tc.halted, tc.gap)
			}
		})
	}
}

func matches(got, part string) bool {
	if part == "" {
		return got == ""
	}
	return strings.Contains(got, part)
}
