package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const kafkaStartTimeout = 2 * time.Minute

// ApacheKafkaOptions says how a broker differs from deploy/dev/kafka/server.properties.
type ApacheKafkaOptions struct {
	// Properties are further lines of server.properties.
	Properties map[string]string
	// Listeners are further listeners by name, in capitals, with their security protocol; see Address.
	Listeners map[string]string
	// Scram are users in the words of StorageTool's --add-scram: SCRAM-SHA-512=[name=…,password=…].
	Scram []string
	// LogFile is where the broker's log goes; by default a file that is removed with the data, unless the start fails.
	LogFile string
}

// ApacheKafka is a single-node Apache Kafka of its own data and ports, or one that runs elsewhere (BILLING_TEST_KAFKA_BROKERS),
// which can be used but neither stopped nor restarted.
type ApacheKafka struct {
	brokers []string
	further map[string]string // addresses of further listeners
	options ApacheKafkaOptions
	sources string // deploy/dev/kafka
	libs    string
	dir     *workDir

	mu    sync.Mutex
	child *child
}

// NewApacheKafka starts a broker for a test that stops or breaks it; the others share one.
func NewApacheKafka(tb testing.TB, options ApacheKafkaOptions) *ApacheKafka {
	tb.Helper()
	kafka, err := StartApacheKafka(tb.Context(), options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := kafka.Close(); err != nil {
			tb.Error(err)
		}
	})
	return kafka
}

// StartApacheKafka starts a new, empty broker and returns when it serves topics, groups and transactions. It fetches Kafka's
// jars first when they are missing. Close it: that stops it and removes its data.
func StartApacheKafka(ctx context.Context, options ApacheKafkaOptions) (*ApacheKafka, error) {
	ctx, cancel := context.WithTimeout(ctx, kafkaStartTimeout)
	defer cancel()
	root, err := repoRoot()
	if err != nil {
		return nil, err
	}
	libs, err := kafkaJars(ctx, root)
	if err != nil {
		return nil, err
	}
	dir, err := newWorkDir()
	if err != nil {
		return nil, err
	}
	k := &ApacheKafka{options: options, sources: filepath.Join(root, kafkaSources), libs: libs, dir: dir}
	if k.options.LogFile == "" {
		k.options.LogFile = dir.join("kafka.log")
	}
	for attempt := 1; ; attempt++ {
		err := k.create(ctx)
		if err == nil {
			return k, nil
		}
		// Somebody may take a port between choosing and using it.
		if attempt == startAttempts || !strings.Contains(err.Error(), "Address already in use") {
			return nil, errors.Join(k.keepLog(err), k.Close())
		}
	}
}

// keepLog moves the log of a failed start out of the folder that is removed, and names it in the error.
func (k *ApacheKafka) keepLog(err error) error {
	if k.options.LogFile != k.dir.join("kafka.log") {
		return fmt.Errorf("%w\nthe whole log: %s", err, k.options.LogFile)
	}
	kept := k.dir.path + ".kafka.log"
	if os.Rename(k.options.LogFile, kept) != nil {
		return err // it failed before there was a log
	}
	return fmt.Errorf("%w\nthe whole log: %s", err, kept)
}

// create writes the configuration, formats the data and starts the broker.
func (k *ApacheKafka) create(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(k.dir.join("data")), os.MkdirAll(k.dir.join("tmp"), 0o755)); err != nil {
		return fmt.Errorf("prepare folder: %w", err)
	}
	if err := k.configure(); err != nil {
		return err
	}
	id, err := k.java(ctx, "kafka.tools.StorageTool", "random-uuid").Output()
	if err != nil {
		return fmt.Errorf("make a cluster id: %w", err)
	}
	args := []string{"kafka.tools.StorageTool", "format", "-t", string(bytes.TrimSpace(id)), "-c", k.dir.join("server.properties")}
	for _, user := range k.options.Scram {
		args = append(args, "--add-scram", user)
	}
	format := k.java(ctx, args...)
	if out, err := format.CombinedOutput(); err != nil {
		return fmt.Errorf("format storage: %w\n%s", err, out)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.start(ctx)
}

func (k *ApacheKafka) configure() error {
	common, err := os.ReadFile(filepath.Join(k.sources, "server.properties"))
	if err != nil {
		return fmt.Errorf("read server.properties: %w", err)
	}
	client, err := freePort()
	if err != nil {
		return err
	}
	controller, err := freePort()
	if err != nil {
		return err
	}
	k.brokers = []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(client))}
	lines := bytes.NewBuffer(common)
	listeners := []string{fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", client)}
	protocols := []string{"PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT"}
	k.further = map[string]string{}
	for name, protocol := range k.options.Listeners {
		port, err := freePort()
		if err != nil {
			return err
		}
		k.further[name] = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		listeners = append(listeners, name+"://"+k.further[name])
		protocols = append(protocols, name+":"+protocol)
	}
	fmt.Fprintf(lines, "listeners=%s,CONTROLLER://127.0.0.1:%d\n", strings.Join(listeners, ","), controller)
	fmt.Fprintf(lines, "advertised.listeners=%s\nlistener.security.protocol.map=%s\n", strings.Join(listeners, ","), strings.Join(protocols, ","))
	fmt.Fprintf(lines, "controller.quorum.voters=1@127.0.0.1:%d\n", controller)
	fmt.Fprintf(lines, "log.dirs=%s\n", k.dir.join("data"))
	for name, value := range k.options.Properties {
		fmt.Fprintf(lines, "%s=%s\n", name, value)
	}
	if err := os.WriteFile(k.dir.join("server.properties"), lines.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write server.properties: %w", err)
	}
	return nil
}

// java is a command on Kafka's jars. A short life is better off with the first compiler only.
func (k *ApacheKafka) java(ctx context.Context, args ...string) *exec.Cmd {
	flags := [...]string{
		"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.io.tmpdir=" + k.dir.join("tmp"),
		"-Dlog4j2.configurationFile=" + filepath.Join(k.sources, "log4j2.xml"), "-cp", filepath.Join(k.libs, "*"),
	}
	return exec.CommandContext(ctx, "java", slices.Concat(flags[:], args)...)
}

// start runs the broker; k.mu is held.
func (k *ApacheKafka) start(ctx context.Context) error {
	log, err := os.OpenFile(k.options.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open broker log: %w", err)
	}
	defer func() { _ = log.Close() }()
	// The broker outlives the context of its start.
	cmd := k.java(context.WithoutCancel(ctx), "kafka.Kafka", k.dir.join("server.properties"))
	cmd.Stdout, cmd.Stderr = log, log
	k.child, err = startChild(cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	if err := k.await(ctx); err != nil {
		stopErr := k.child.stop(0)
		return errors.Join(fmt.Errorf("start kafka: %w\n%s", err, tail(k.options.LogFile, 30)), stopErr)
	}
	return nil
}

// await returns when a group and a transaction can be started, so that no test waits for internal topics being made.
func (k *ApacheKafka) await(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	watch.Go(func() {
		select {
		case <-k.child.done:
			cancel(fmt.Errorf("broker ended: %v", k.child.cmd.ProcessState))
		case <-ctx.Done():
		}
	})
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := warmUp(ctx, k.brokers)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

func warmUp(ctx context.Context, brokers []string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client, err := newClient(brokers)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return fmt.Errorf("ping broker: %w", err)
	}
	if _, err := fetchOffsets(ctx, client, "testkit-warm-up"); err != nil {
		return err
	}
	request := kmsg.NewInitProducerIDRequest()
	request.TransactionalID = new("testkit-warm-up")
	request.TransactionTimeoutMillis = 1000
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("find transaction coordinator: %w", err)
	}
	return kerr.ErrorForCode(response.ErrorCode)
}

// Brokers are the addresses to connect to; they stay the same over restarts.
func (k *ApacheKafka) Brokers() []string { return k.brokers }

// Address is where the listener of a name is to be connected to.
func (k *ApacheKafka) Address(listener string) string { return k.further[listener] }

// LogFile is the broker's log, empty for one that runs elsewhere.
func (k *ApacheKafka) LogFile() string { return k.options.LogFile }

// Stop shuts the broker down by SIGTERM and keeps its data.
func (k *ApacheKafka) Stop() error { return k.end(30*time.Second, syscall.SIGTERM) }

// Kill9 ends the broker by SIGKILL, as a crash would.
func (k *ApacheKafka) Kill9() error { return k.end(0) }

func (k *ApacheKafka) end(patience time.Duration, signals ...os.Signal) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dir == nil {
		return errors.New("stop kafka: it was not started by this process")
	}
	if k.child == nil {
		return nil
	}
	return k.child.stop(patience, signals...)
}

// Restart starts the broker again on the same ports and data, after stopping it when it still runs.
func (k *ApacheKafka) Restart(ctx context.Context) error {
	if err := k.Stop(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, kafkaStartTimeout)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.start(ctx)
}

// Close stops the broker and removes its data.
func (k *ApacheKafka) Close() error {
	if k.dir == nil {
		return nil
	}
	return errors.Join(k.Stop(), k.dir.close())
}
