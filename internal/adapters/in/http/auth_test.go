package http_test

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	httpin "billing/internal/adapters/in/http"
)

// Whatever is registered is closed, unless it is on this list.
func TestEveryRouteIsClosedToThoseWithoutItsScope(t *testing.T) {
	t.Parallel()
	public := []string{"GET /openapi.yaml"}
	a := newAPI(t)
	for _, r := range httpin.Routes() {
		name := r.Method + " " + r.Path
		if r.Public != slices.Contains(public, name) {
			t.Errorf("%s is public: %v", name, r.Public)
		}
		if r.Public {
			continue
		}
		if len(r.Scopes) == 0 {
			t.Errorf("%s has no scope", name)
		}
		path := strings.ReplaceAll(r.Path, "{event_id}", "019ade3c-1b00-7000-8000-000000000001")
		for _, authorization := range [][]string{
			nil,
			{""},
			{"Bearer"},
			{"Bearer "},
			{"Bearer wrong"},
			{"Basic " + tokenOf("shop")},
			{"Bearer  " + tokenOf("shop")},
			{tokenOf("shop")},
			{"Bearer " + tokenOf("shop") + " "},
			{"Bearer " + tokenOf("former")},
			{"Bearer " + tokenOf("shop"), "Bearer " + tokenOf("shop")},
		} {
			answer := a.send(t, request{method: r.Method, path: path, token: none, header: http.Header{"Authorization": authorization}})
			wantProblem(t, answer, http.StatusUnauthorized, "UNAUTHORIZED")
		}
		for client, scopes := range clients {
			allowed := slices.ContainsFunc(r.Scopes, func(s httpin.Scope) bool { return slices.Contains(scopes, string(s)) })
			answer := a.send(t, request{method: r.Method, path: path, token: tokenOf(client)})
			if refused := answer.Code == http.StatusForbidden; refused == allowed || answer.Code == http.StatusUnauthorized {
				t.Errorf("%s by %s is %d", name, client, answer.Code)
			}
		}
	}
}

func TestRouteThatForgetsItsScopesIsClosedToEverybody(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	handler := httpin.HandlerWithForgottenRoute(a.API, "/v1/forgotten")
	for client := range clients {
		status, _ := getWith(t, handler, "/v1/forgotten", tokenOf(client))
		if status != http.StatusForbidden {
			t.Errorf("%s gets %d", client, status)
		}
	}
}

func TestSchemeOfATokenIsReadInAnyCase(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	answer := a.send(t, request{method: http.MethodGet, path: "/v1/charges", token: none, header: http.Header{"Authorization": {"bEARER " + tokenOf("shop")}}})
	if answer.Code != http.StatusOK {
		t.Errorf("got %d", answer.Code)
	}
}

func TestTokensFileIsReadAgainWhenItChanges(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	status := func(client string) int { return a.get(t, client, "/v1/charges", "").Code }
	replace := func(content string) {
		writeFile(t, a.tokens, content)
		a.clock.Advance(time.Second)
	}
	steps := []struct {
		name         string
		do           func()
		shop, newbie int
		lines        int // of the log, in all
	}{
		{"at start", func() {}, 200, 401, 0},
		{"a client more", func() {
			replace(tokensFile(entry("shop", clients["shop"], ""), entry("newbie", []string{"charges:read"}, "")))
		}, 200, 200, 1},
		{"not JSON", func() { replace("{") }, 200, 200, 2},
		{"still not JSON", func() { a.clock.Advance(time.Hour) }, 200, 200, 2},
		{"gone", func() { _ = os.Remove(a.tokens); a.clock.Advance(time.Second) }, 200, 200, 3},
		{"still gone", func() { a.clock.Advance(time.Hour) }, 200, 200, 3},
		{"a client less", func() { replace(tokensFile(entry("newbie", []string{"charges:read"}, ""))) }, 401, 200, 4},
		{"scope taken", func() { replace(tokensFile(entry("newbie", []string{"charges:write"}, ""))) }, 401, 403, 5},
		{"nobody", func() { replace(`{"clients":[]}`) }, 401, 401, 6},
		{"soon over", func() {
			replace(tokensFile(entry("shop", clients["shop"], `,"expires_at":"`+a.clock.Now().Add(time.Minute).Format(time.RFC3339)+`"`)))
		}, 200, 401, 7},
		{"over", func() { a.clock.Advance(time.Minute) }, 401, 401, 7},
		{"clock set back", func() { a.clock.Advance(-2 * time.Hour) }, 200, 401, 7},
	}
	for _, step := range steps {
		step.do()
		if shop, newbie := status("shop"), status("newbie"); shop != step.shop || newbie != step.newbie {
			t.Fatalf("%s: shop gets %d, newbie %d, want %d and %d", step.name, shop, newbie, step.shop, step.newbie)
		}
		if lines := a.logged.lines(); len(lines) != step.lines {
			t.Fatalf("%s: %d lines, want %d: %q", step.name, len(lines), step.lines, lines)
		}
	}
	for _, line := range a.logged.lines() {
		if strings.Contains(line, "token_sha256\":") || strings.Contains(line, a.tokens) {
			t.Errorf("logged %s", line)
		}
	}
}

func TestClientMayHaveTwoTokensWhileOneIsReplaced(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	old, replacement := entry("shop", clients["shop"], ""), strings.Replace(entry("next", clients["shop"], ""), `"next"`, `"shop"`, 1)
	writeFile(t, a.tokens, tokensFile(old, replacement))
	a.clock.Advance(time.Second)
	wantAccepted(t, a.post(t, "shop", "k", bodyOf("o")), false)
	wantAccepted(t, a.post(t, "next", "k", bodyOf("o")), true)
}

func TestBadTokensFilesAreRefused(t *testing.T) {
	t.Parallel()
	good := entry("shop", clients["shop"], "")
	for content, want := range map[string]string{
		``:                     "the document ends too early",
		`[]`:                   "a member is unknown or of the wrong type",
		`{}`:                   "there is no list of clients",
		`{"clients":null}`:     "there is no list of clients",
		`{"clients":[]}{}`:     "data behind the document",
		tokensFile(good) + "x": "not valid JSON",
		tokensFile(good, good): "client 2: the same token stands there twice",
		tokensFile(good, `{}`): "client 2: the name is not",
		tokensFile(strings.Replace(good, `"name"`, `"name":"a","name"`, 1)):             "duplicate key",
		tokensFile(strings.Replace(good, `"shop"`, `"a b"`, 1)):                         "client 1: the name is not",
		tokensFile(strings.Replace(good, `_sha256":"`, `_sha256":"00`, 1)):              "client 1: token_sha256 is not 64 hex digits",
		tokensFile(strings.Replace(good, `_sha256":"`, `_sha256":"zz`, 1)):              "client 1: token_sha256 is not 64 hex digits",
		tokensFile(entry("shop", nil, "")):                                              "client 1: there are no scopes",
		tokensFile(entry("shop", []string{"charges:delete"}, "")):                       "client 1: a scope is unknown",
		tokensFile(entry("shop", clients["shop"], `,"expires":"2026-01-01T00:00:00Z"`)): "a member is unknown or of the wrong type",
		tokensFile(entry("shop", clients["shop"], `,"expires_at":"tomorrow"`)):          "a member is unknown or of the wrong type",
		strings.Repeat(" ", 1<<20) + tokensFile(good):                                   "larger than",
	} {
		path := filepath.Join(t.TempDir(), "tokens.json")
		writeFile(t, path, content)
		if _, err := httpin.OpenTokens(path, time.Now, slog.New(slog.DiscardHandler)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60q: got %v, want %s", content, err, want)
		}
	}
	if _, err := httpin.OpenTokens("/nowhere", time.Now, slog.New(slog.DiscardHandler)); err == nil || strings.Contains(err.Error(), "nowhere") {
		t.Errorf("got %v", err)
	}
}

func TestRateIsLimitedByClient(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(a *api) { a.Rate = 3 })
	for range 3 {
		a.get(t, "shop", "/v1/charges", "")
	}
	answer := a.get(t, "shop", "/v1/charges", "")
	wantProblem(t, answer, http.StatusTooManyRequests, "RATE_LIMITED")
	if after := answer.Header().Get("Retry-After"); after != "1" {
		t.Errorf("Retry-After is %q", after)
	}
	if other := a.get(t, "market", "/v1/charges", ""); other.Code != http.StatusOK {
		t.Errorf("another client gets %d", other.Code)
	}
	wantProblem(t, a.post(t, "shop", "k", bodyOf("o")), http.StatusTooManyRequests, "RATE_LIMITED")
	a.clock.Advance(400 * time.Millisecond)
	wantAccepted(t, a.post(t, "shop", "k", bodyOf("o")), false)
	wantProblem(t, a.post(t, "shop", "k", bodyOf("o")), http.StatusTooManyRequests, "RATE_LIMITED")
	if n := a.db.Count(t, "SELECT count(*) FROM charge"); n != 1 {
		t.Errorf("%d charges", n)
	}
}
