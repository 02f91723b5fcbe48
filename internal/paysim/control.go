package paysim

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
)

// controls are the calls by which other processes steer the simulator:
//
//	GET    /_sim/stats                       counts of this moment
//	GET    /_sim/script                      the script
//	PUT    /_sim/script                      replace the script
//	POST   /_sim/rules    {"rules":[…]}      append rules
//	DELETE /_sim/rules                       remove every rule
//	POST   /_sim/clock    {"advance":"25h"}  move the clock
//	POST   /_sim/forget                      forget all keys
//	POST   /_sim/release                     let hanging requests go on
//
// All but GET answer with the counts, so that a script sees what it did.
func (s *Server) controls() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_sim/stats", s.steer(func(*http.Request) error { return nil }))
	mux.HandleFunc("GET /_sim/script", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.Script()) })
	mux.HandleFunc("PUT /_sim/script", s.steer(func(r *http.Request) error {
		script, err := ReadScript(r.Body)
		if err != nil {
			return err
		}
		return s.SetScript(script)
	}))
	mux.HandleFunc("POST /_sim/rules", s.steer(func(r *http.Request) error {
		script, err := ReadScript(r.Body)
		if err != nil {
			return err
		}
		return s.AddRules(script.Rules...)
	}))
	mux.HandleFunc("DELETE /_sim/rules", s.steer(func(*http.Request) error {
		s.ClearRules()
		return nil
	}))
	mux.HandleFunc("POST /_sim/clock", s.steer(func(r *http.Request) error {
		var move struct {
			Advance time.Duration `json:"advance"`
		}
		if err := json.UnmarshalRead(r.Body, &move, strict, durations); err != nil {
			return err
		}
		return s.Advance(move.Advance)
	}))
	mux.HandleFunc("POST /_sim/forget", s.steer(func(*http.Request) error { return s.ForgetKeys() }))
	mux.HandleFunc("POST /_sim/release", s.steer(func(*http.Request) error {
		s.ReleaseHangs()
		return nil
	}))
	return mux
}

// steer turns a control call into a handler: 400 with the reason, or the counts.
func (s *Server) steer(do func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		if err := do(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		writeJSON(w, s.Stats())
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v, durations)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}
