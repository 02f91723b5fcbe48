package deploy_test

import (
	"regexp"
	"strings"
	"testing"
)

func TestBaseImagesArePinned(t *testing.T) {
	t.Parallel()
	images := submatches(`(?m)^ARG [A-Z]+_IMAGE=(\S+)$`, read(t, "Dockerfile"))
	images = append(images, submatches(`(?m)^    image: (\S+)$`, read(t, "deploy/compose.yaml"))...)
	if len(images) < 6 {
		t.Fatalf("found only %q", images)
	}
	for _, image := range images {
		if !regexp.MustCompile(`^[a-z/-]+:v?[0-9]+\.[0-9]+[a-z0-9.-]*$`).MatchString(image) && !strings.HasSuffix(image, ":dev") {
			t.Errorf("%s has no version", image)
		}
	}
	if froms := submatches(`(?m)^FROM (\S+)`, read(t, "Dockerfile")); len(froms) != 3 || froms[2] != "scratch" {
		t.Errorf("stages start from %q, want arguments and at last scratch", froms)
	}
}

func TestActionsArePinnedByHash(t *testing.T) {
	t.Parallel()
	uses := submatches(`(?m)uses: (.*)$`, read(t, ".github/workflows/ci.yml"))
	if len(uses) == 0 {
		t.Fatal("the workflow uses no action")
	}
	for _, action := range uses {
		if !regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40} # v[0-9.]+$`).MatchString(action) {
			t.Errorf("%s is not pinned by a whole hash with its version", action)
		}
	}
}

// The toolchain of the image is the one that the code asks for.
func TestBuilderHasTheGoVersionOfTheModule(t *testing.T) {
	t.Parallel()
	module := submatches(`(?m)^go (\d+\.\d+)`, read(t, "go.mod"))
	builder := submatches(`(?m)^ARG GO_IMAGE=golang:(\d+\.\d+)`, read(t, "Dockerfile"))
	if len(module) != 1 || len(builder) != 1 || module[0] != builder[0] {
		t.Errorf("go.mod asks for %q, the image builds by %q", module, builder)
	}
}
