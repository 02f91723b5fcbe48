//go:build deploy

package deploy_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type compose struct {
	Services map[string]struct {
		Image       string            `json:"image"`
		Environment map[string]any    `json:"environment"`
		Ports       []string          `json:"ports"`
		Secrets     []string          `json:"secrets"`
		Volumes     []string          `json:"volumes"`
		Healthcheck *json.RawMessage  `json:"healthcheck"`
		DependsOn   map[string]waitOn `json:"depends_on"`
	} `json:"services"`
	Secrets map[string]struct {
		File string `json:"file"`
	} `json:"secrets"`
}

type waitOn struct {
	Condition string `json:"condition"`
}

// oneShot are the services that end, which their dependents wait for.
var oneShot = []string{"topics", "migrate"}

func TestComposeServicesAreWatchedAndPrivate(t *testing.T) {
	t.Parallel()
	var c compose
	decode(t, "compose", &c)
	for name, s := range c.Services {
		if (s.Healthcheck == nil) != slices.Contains(oneShot, name) {
			t.Errorf("%s: a service that stays has a health check, one that ends has none", name)
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s can be reached from outside at %s", name, port)
			}
		}
		for other, wait := range s.DependsOn {
			want := "service_healthy"
			if slices.Contains(oneShot, other) {
				want = "service_completed_successfully"
			}
			if _, ok := c.Services[other]; !ok || wait.Condition != want {
				t.Errorf("%s waits for %s until %q, want %q", name, other, wait.Condition, want)
			}
		}
	}
}

// Every mounted file and every secret is there, and the service starts with them.
func TestComposeConfigurationIsAccepted(t *testing.T) {
	t.Parallel()
	var c compose
	decode(t, "compose", &c)
	files := map[string]string{}
	for name, secret := range c.Secrets {
		read(t, filepath.Join("deploy", secret.File))
		files["/run/secrets/"+name] = filepath.Join(root, "deploy", secret.File)
	}
	for name, s := range c.Services {
		for _, secret := range s.Secrets {
			if _, ok := c.Secrets[secret]; !ok {
				t.Errorf("%s uses secret %s, which is not declared", name, secret)
			}
		}
		for _, volume := range s.Volumes {
			if source, _, _ := strings.Cut(volume, ":"); strings.HasPrefix(source, "./") && len(deployedBelow(t, source)) == 0 {
				t.Errorf("%s mounts %s, which is not there", name, source)
			}
		}
	}
	environment := c.Services["billing"].Environment
	env := make([]string, 0, len(environment))
	for name, value := range environment {
		text, ok := value.(string)
		if !ok {
			t.Fatalf("%s is no string", name)
		}
		if file, ok := files[text]; ok {
			text = file
		}
		env = append(env, name+"="+text)
	}
	if code, output := run(t, env, "config"); code != 0 {
		t.Errorf("refused with %d:\n%s", code, output)
	}
}

// deployedBelow lists the files of deploy at or below a path that begins with "./".
func deployedBelow(t *testing.T, path string) []string {
	t.Helper()
	path = strings.TrimPrefix(path, "./")
	var found []string
	for name := range deployed(t) {
		if name == path || strings.HasPrefix(name, path+"/") {
			found = append(found, name)
		}
	}
	return found
}
