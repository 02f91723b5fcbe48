//go:build deploy

package deploy_test

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// object is a rendered manifest. Fields that no test asks for are left out.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Data                         map[string]string `json:"data"`
	AutomountServiceAccountToken *bool             `json:"automountServiceAccountToken"`
	Spec                         spec              `json:"spec"`
}

type spec struct {
	Replicas       *int              `json:"replicas"`
	MaxUnavailable int               `json:"maxUnavailable"`
	PodSelector    map[string]any    `json:"podSelector"`
	PolicyTypes    []string          `json:"policyTypes"`
	Ingress        []json.RawMessage `json:"ingress"`
	Egress         []json.RawMessage `json:"egress"`
	Template       struct {
		Spec pod `json:"spec"`
	} `json:"template"`
}

type pod struct {
	AutomountServiceAccountToken  *bool            `json:"automountServiceAccountToken"`
	TerminationGracePeriodSeconds int              `json:"terminationGracePeriodSeconds"`
	TopologySpreadConstraints     []map[string]any `json:"topologySpreadConstraints"`
	HostNetwork                   bool             `json:"hostNetwork"`
	HostPID                       bool             `json:"hostPID"`
	Security                      struct {
		RunAsNonRoot   bool              `json:"runAsNonRoot"`
		RunAsUser      int               `json:"runAsUser"`
		SeccompProfile map[string]string `json:"seccompProfile"`
	} `json:"securityContext"`
	Containers []container `json:"containers"`
	Volumes    []struct {
		Secret *struct {
			SecretName  string `json:"secretName"`
			DefaultMode int    `json:"defaultMode"`
		} `json:"secret"`
	} `json:"volumes"`
}

type container struct {
	Image string   `json:"image"`
	Args  []string `json:"args"`
	Env   []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
	ReadinessProbe *probe `json:"readinessProbe"`
	LivenessProbe  *probe `json:"livenessProbe"`
	Lifecycle      struct {
		PreStop struct {
			Sleep struct {
				Seconds int `json:"seconds"`
			} `json:"sleep"`
		} `json:"preStop"`
	} `json:"lifecycle"`
	Resources struct {
		Requests map[string]string `json:"requests"`
		Limits   map[string]string `json:"limits"`
	} `json:"resources"`
	Security struct {
		AllowPrivilegeEscalation *bool `json:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `json:"readOnlyRootFilesystem"`
		Privileged               bool  `json:"privileged"`
		Capabilities             struct {
			Drop []string `json:"drop"`
			Add  []string `json:"add"`
		} `json:"capabilities"`
	} `json:"securityContext"`
}

type probe struct {
	HTTPGet struct {
		Path string `json:"path"`
		Port any    `json:"port"`
	} `json:"httpGet"`
}

// env is what a container says itself.
func (c container) env(name string) string {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

type manifests []object

func (m manifests) kind(kind string) []object {
	return slices.DeleteFunc(slices.Clone(m), func(o object) bool { return o.Kind != kind })
}

func (m manifests) named(t *testing.T, kind, name string) object {
	t.Helper()
	for _, o := range m.kind(kind) {
		if o.Metadata.Name == name || strings.HasPrefix(o.Metadata.Name, name+"-") && kind == "ConfigMap" {
			return o
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return object{}
}

// workloads are the objects that start pods.
func (m manifests) workloads() []object { return slices.Concat(m.kind("Deployment"), m.kind("Job")) }

// eachOverlay runs a check for every overlay as kustomize renders it.
func eachOverlay(t *testing.T, check func(t *testing.T, m manifests)) {
	t.Helper()
	for _, overlay := range []string{"dev", "production"} {
		t.Run(overlay, func(t *testing.T) {
			t.Parallel()
			var m manifests
			decode(t, overlay, &m)
			check(t, m)
		})
	}
}

// decode reads what `make check-deploy` rendered.
func decode(t *testing.T, name string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, filepath.Join(".tools", "rendered", name+".json"))), into); err != nil {
		t.Fatal(err)
	}
}

func TestPodsAreClosed(t *testing.T) {
	t.Parallel()
	eachOverlay(t, func(t *testing.T, m manifests) {
		t.Helper()
		for _, o := range m.workloads() {
			p := o.Spec.Template.Spec
			if p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken {
				t.Errorf("%s gets a token of the API server", o.Metadata.Name)
			}
			if !p.Security.RunAsNonRoot || p.Security.RunAsUser != 65532 || p.Security.SeccompProfile["type"] != "RuntimeDefault" || p.HostNetwork || p.HostPID {
				t.Errorf("%s runs as %+v", o.Metadata.Name, p.Security)
			}
			for _, c := range p.Containers {
				s := c.Security
				if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem || s.Privileged ||
					!slices.Equal(s.Capabilities.Drop, []string{"ALL"}) || len(s.Capabilities.Add) > 0 {
					t.Errorf("%s is not closed: %+v", o.Metadata.Name, s)
				}
				if _, tag, ok := strings.Cut(c.Image, ":"); !ok || tag == "latest" {
					t.Errorf("%s runs %s", o.Metadata.Name, c.Image)
				}
			}
			for _, v := range p.Volumes {
				if v.Secret != nil && v.Secret.DefaultMode != 0o440 {
					t.Errorf("%s can read secrets by mode %o", o.Metadata.Name, v.Secret.DefaultMode)
				}
			}
		}
	})
}

// The service never asks the API server, so nobody may ask in its name.
func TestNobodyHasRights(t *testing.T) {
	t.Parallel()
	eachOverlay(t, func(t *testing.T, m manifests) {
		t.Helper()
		for _, o := range m {
			if slices.Contains([]string{"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}, o.Kind) {
				t.Errorf("%s %s gives rights", o.Kind, o.Metadata.Name)
			}
			if o.Kind == "ServiceAccount" && (o.AutomountServiceAccountToken == nil || *o.AutomountServiceAccountToken) {
				t.Errorf("ServiceAccount %s mounts its token", o.Metadata.Name)
			}
		}
	})
}

func TestServiceCanStopBeforeItIsKilled(t *testing.T) {
	t.Parallel()
	eachOverlay(t, func(t *testing.T, m manifests) {
		t.Helper()
		p := m.named(t, "Deployment", "billing").Spec.Template.Spec
		stop, err := time.ParseDuration(m.named(t, "ConfigMap", "billing").Data["BILLING_SHUTDOWN_TIMEOUT"])
		if err != nil {
			t.Fatal(err)
		}
		const margin = 5
		if need := p.Containers[0].Lifecycle.PreStop.Sleep.Seconds + int(stop.Seconds()) + margin; p.TerminationGracePeriodSeconds < need {
			t.Errorf("killed after %d s, needs %d s", p.TerminationGracePeriodSeconds, need)
		}
	})
}

func TestCollectorKnowsTheMemoryLimit(t *testing.T) {
	t.Parallel()
	eachOverlay(t, func(t *testing.T, m manifests) {
		t.Helper()
		for _, o := range m.workloads() {
			if o.Metadata.Name == "paysim" {
				continue
			}
			c := o.Spec.Template.Spec.Containers[0]
			soft, hard := mebibytes(t, c.env("GOMEMLIMIT"), "MiB"), mebibytes(t, c.Resources.Limits["memory"], "Mi")
			if share := float64(soft) / float64(hard); share < 0.85 || share > 0.92 {
				t.Errorf("%s: GOMEMLIMIT is %d of %d MiB, want about nine tenths", o.Metadata.Name, soft, hard)
			}
			if c.Resources.Requests["cpu"] == "" || c.Resources.Requests["memory"] == "" {
				t.Errorf("%s requests %v", o.Metadata.Name, c.Resources.Requests)
			}
		}
	})
}

func mebibytes(t *testing.T, text, unit string) int {
	t.Helper()
	digits, ok := strings.CutSuffix(text, unit)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil {
		t.Fatalf("%q is no number of %s", text, unit)
	}
	return n
}

func TestServiceIsProbedAndSpread(t *testing.T) {
	t.Parallel()
	eachOverlay(t, func(t *testing.T, m manifests) {
		t.Helper()
		p := m.named(t, "Deployment", "billing").Spec.Template.Spec
		c := p.Containers[0]
		if c.ReadinessProbe == nil || c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.ReadinessProbe.HTTPGet.Port != "ops" {
			t.Errorf("readiness is %+v", c.ReadinessProbe)
		}
		if c.LivenessProbe == nil || c.LivenessProbe.HTTPGet.Path != "/livez" || c.LivenessProbe.HTTPGet.Port != "ops" {
			t.Errorf("liveness is %+v", c.LivenessProbe)
		}
		if len(p.TopologySpreadConstraints) == 0 {
			t.Error("pods may all be on one node")
		}
		if got := m.named(t, "PodDisruptionBudget", "billing").Spec.MaxUnavailable; got != 1 {
			t.Errorf("a drain may take %d pods at once", got)
		}
		if args := m.named(t, "Job", "billing-migrate").Spec.Template.Spec.Containers[0].Args; !slices.Equal(args, []string{"migrate", "up"}) {
			t.Errorf("the migration runs %q", args)
		}
	})
}

func TestNetworkIsClosedByDefault(t *testing.T) {
	t.Parallel()
	eachOverlay(t, func(t *testing.T, m manifests) {
		t.Helper()
		deny := m.named(t, "NetworkPolicy", "billing-default-deny").Spec
		if len(deny.PodSelector) != 0 || len(deny.Ingress)+len(deny.Egress) != 0 || !slices.Equal(deny.PolicyTypes, []string{"Ingress", "Egress"}) {
			t.Errorf("the default is %+v", deny)
		}
		for _, o := range m.kind("NetworkPolicy") {
			for _, rule := range slices.Concat(o.Spec.Ingress, o.Spec.Egress) {
				if !strings.Contains(string(rule), `"ports"`) || !regexp.MustCompile(`"(to|from)"`).Match(rule) {
					t.Errorf("%s opens more than one way: %s", o.Metadata.Name, rule)
				}
			}
		}
	})
}

// secretsDir is where pods see their secrets.
const secretsDir = "/etc/billing/secrets"

// The configuration as deployed is one that the service starts with.
func TestServiceAcceptsItsConfiguration(t *testing.T) {
	t.Parallel()
	var form manifests
	decode(t, "secret", &form)
	eachOverlay(t, func(t *testing.T, m manifests) {
		t.Helper()
		secrets := t.TempDir()
		for _, o := range form {
			if o.Metadata.Name == "billing" {
				writeFiles(t, secrets, o.Data)
			}
		}
		c := m.named(t, "Deployment", "billing").Spec.Template.Spec.Containers[0]
		data := m.named(t, "ConfigMap", "billing").Data
		env := make([]string, 0, len(data)+len(c.Env))
		for name, value := range data {
			env = append(env, name+"="+value)
		}
		for _, e := range c.Env {
			env = append(env, e.Name+"="+strings.Replace(e.Value, secretsDir, secrets, 1))
		}
		if code, output := run(t, env, "config"); code != 0 {
			t.Errorf("refused with %d:\n%s", code, output)
		}
	})
}

func writeFiles(t *testing.T, dir string, content map[string]string) {
	t.Helper()
	for name, text := range content {
		value, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), value, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The form to fill in has every file that a pod reads.
func TestSecretsHoldWhatPodsRead(t *testing.T) {
	t.Parallel()
	var form manifests
	decode(t, "secret", &form)
	eachOverlay(t, func(t *testing.T, m manifests) {
		t.Helper()
		for _, name := range []string{"billing", "billing-migrate"} {
			kind := "Deployment"
			if name == "billing-migrate" {
				kind = "Job"
			}
			have := slices.Collect(maps.Keys(form.named(t, "Secret", name).Data))
			for _, e := range m.named(t, kind, name).Spec.Template.Spec.Containers[0].Env {
				if file, ok := strings.CutPrefix(e.Value, secretsDir+"/"); ok && !slices.Contains(have, file) {
					t.Errorf("%s reads %s, which the secret %s does not hold", e.Name, file, name)
				}
			}
		}
	})
}
