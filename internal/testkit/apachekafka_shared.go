package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const (
	// kafkaBrokersEnv names a running Apache Kafka for all packages of one `make test`, comma-separated host:port.
	kafkaBrokersEnv = "BILLING_TEST_KAFKA_BROKERS"
	kafkaSources    = "deploy/dev/kafka"
)

// sharedKafka is the broker of this process's tests.
var sharedKafka struct {
	mu    sync.Mutex
	kafka *ApacheKafka
	err   error
}

// SharedApacheKafka is the Apache Kafka that the tests of this process share: the one named by BILLING_TEST_KAFKA_BROKERS, else
// one that is started at the first call. Tests keep apart by the names of their topics and groups, see UniqueName.
func SharedApacheKafka(tb testing.TB) *ApacheKafka {
	tb.Helper()
	sharedKafka.mu.Lock()
	defer sharedKafka.mu.Unlock()
	if sharedKafka.kafka == nil && sharedKafka.err == nil {
		if brokers := os.Getenv(kafkaBrokersEnv); brokers != "" {
			sharedKafka.kafka = &ApacheKafka{brokers: strings.Split(brokers, ",")}
		} else {
			sharedKafka.kafka, sharedKafka.err = StartApacheKafka(tb.Context(), ApacheKafkaOptions{})
		}
	}
	if sharedKafka.err != nil {
		tb.Fatal(sharedKafka.err)
	}
	return sharedKafka.kafka
}

func closeSharedKafka() error {
	sharedKafka.mu.Lock()
	defer sharedKafka.mu.Unlock()
	kafka := sharedKafka.kafka
	sharedKafka.kafka, sharedKafka.err = nil, nil
	if kafka == nil {
		return nil
	}
	return kafka.Close()
}

// kafkaJars is the folder of Kafka's jars under .kafka of the repository, filled by Maven when it is missing or made from
// another pom. kafka.sh uses the same folder by the same rule.
func kafkaJars(ctx context.Context, root string) (string, error) {
	if _, err := exec.LookPath("java"); err != nil {
		return "", errors.New("run Kafka: java 17 or later is missing; install it: " +
			"apt-get install -y openjdk-17-jre-headless (or brew install openjdk)")
	}
	dir := filepath.Join(root, ".kafka")
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o755); err != nil {
		return "", fmt.Errorf("create %s: %w", dir, err)
	}
	// Packages are tested in parallel processes: one fetches, the others wait for it.
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return "", fmt.Errorf("create lock: %w", err)
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", dir, err)
	}
	libs := filepath.Join(dir, "libs")
	pom, err := os.ReadFile(filepath.Join(root, kafkaSources, "pom.xml"))
	if err != nil {
		return "", fmt.Errorf("read list of jars: %w", err)
	}
	if made, err := os.ReadFile(filepath.Join(libs, "pom.xml")); err == nil && string(made) == string(pom) {
		return libs, nil
	}
	return libs, fetchKafkaJars(ctx, root, libs, pom)
}

// fetchKafkaJars fills a folder of another name first: only a complete one is called libs.
func fetchKafkaJars(ctx context.Context, root, libs string, pom []byte) error {
	if _, err := exec.LookPath("mvn"); err != nil {
		return errors.New("fetch Kafka's jars: mvn is missing; install it: apt-get install -y maven (or brew install maven)")
	}
	dir := filepath.Dir(libs)
	fresh := fmt.Sprintf("%s.%d", libs, os.Getpid())
	defer func() { _ = os.RemoveAll(fresh) }()
	mvn := exec.CommandContext(ctx, "mvn", "--quiet", "--batch-mode", "--file", filepath.Join(root, kafkaSources, "pom.xml"),
		"-Dmaven.repo.local="+filepath.Join(dir, "m2"), "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+fresh)
	mvn.Env = append(os.Environ(), fmt.Sprintf("MAVEN_OPTS=%s -XX:-UsePerfData -Djava.io.tmpdir=%s", os.Getenv("MAVEN_OPTS"), filepath.Join(dir, "tmp")))
	if out, err := mvn.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch Kafka's jars by mvn: %w\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(fresh, "pom.xml"), pom, 0o644); err != nil {
		return fmt.Errorf("mark jars as complete: %w", err)
	}
	if err := errors.Join(os.RemoveAll(libs), os.Rename(fresh, libs)); err != nil {
		return fmt.Errorf("put jars in place: %w", err)
	}
	return nil
}
