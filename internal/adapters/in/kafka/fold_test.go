package kafka

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

const lastCased = 0x1ffff // no letter above has another case

// TestFoldingMeetsEveryCaseOfALetter walks all letters: what the standard library's case folding or Java's
// comparison takes for one name must have one folded form.
func TestFoldingMeetsEveryCaseOfALetter(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= lastCased; r++ {
		if r >= 0xd800 && r <= 0xdfff {
			continue
		}
		want := foldRune(r)
		for _, other := range []rune{unicode.SimpleFold(r), unicode.ToLower(r), unicode.ToUpper(r), unicode.ToTitle(r), want} {
			if foldRune(other) != want {
				t.Fatalf("%U folds to %U, and its variant %U to %U", r, want, other, foldRune(other))
			}
		}
	}
	for r, want := range map[rune]rune{'K': 'k', 'ſ': 's', 'ı': 'i', 'İ': 'i', 'Å': 'å', 'ς': 'σ', 'A': 'a', '_': '_', '0': '0'} {
		if foldRune(r) != want {
			t.Errorf("%c folds to %c, want %c", r, foldRune(r), want)
		}
	}
}

func TestVariantsAgreeWithFoldedForms(t *testing.T) {
	t.Parallel()
	letters := rapid.StringOfN(rapid.SampledFrom([]rune("kKKsSſiIıİσςΣ_a")), 0, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := letters.Draw(t, "a"), letters.Draw(t, "b")
		same := fold([]byte(a)) == fold([]byte(b))
		if variants([]byte(a), b) != same || variants([]byte(b), []byte(a)) != same {
			t.Fatalf("%q and %q: folded forms are the same: %t", a, b, same)
		}
		if strings.EqualFold(a, b) && !same {
			t.Fatalf("%q and %q are equal under folding and have two forms", a, b)
		}
		if isFolded([]byte(a)) && fold([]byte(a)) != a {
			t.Fatalf("%q is not its own form", a)
		}
	})
}

// TestRepeatsFindsEveryPair tries objects on both sides of the limit up to which names are compared in place.
func TestRepeatsFindsEveryPair(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-dA-Dſ]{1,4}`), 0, 3*maxCompared, rapid.ID[string]).Draw(t, "names")
		seen, want := map[string]bool{}, false
		list := make([][]byte, 0, len(names))
		for _, name := range names {
			want = want || seen[fold([]byte(name))]
			seen[fold([]byte(name))] = true
			list = append(list, []byte(name))
		}
		if repeats(list) != want {
			t.Fatalf("%q: a pair is there: %t", names, want)
		}
	})
}
