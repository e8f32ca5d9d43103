package shedlock.interop;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import net.javacrumbs.shedlock.core.LockProvider;

/**
 * A process of ShedLock's that does what it is told: one JSON object a line on standard input, one
 * answer a line on standard output under the same {@code id}, in the order in which they are done.
 *
 * <p>Arguments: the provider as {@link Stores} calls it, the store's URL, and what is the test's own
 * in it; for {@code jdbc-template} the time mode instead: {@code db}, {@code client} (in the zone of
 * this JVM) or {@code client-utc}. It ends when standard input does.
 *
 * <p>Properties: {@code interop.host} is the host that {@code jdbc-template} writes as owner, instead
 * of this machine's; {@code interop.patience} is how long it waits for a connection, in milliseconds,
 * or with Redis for an answer, after which nothing is sent again.
 */
public final class Main {
    private static final Gson GSON = new Gson();

    private Main() {}

    public static void main(String[] args) throws Exception {
        // Whatever a library prints must not come between the answers.
        PrintStream answers = new PrintStream(
                new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);

        LockProvider provider = Stores.open(args);
        Commands commands = new Commands(provider);
        ExecutorService workers = Executors.newCachedThreadPool(task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });
        answers.println("{\"ready\":true}");

        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonObject command = GSON.fromJson(line, JsonObject.class);
            workers.submit(() -> {
                JsonObject answer = answer(commands, command);
                answer.add("id", command.get("id"));
                synchronized (answers) {
                    answers.println(GSON.toJson(answer));
                }
            });
        }
        // Without unlocking anything: what is still held is what a process that dies leaves.
        Runtime.getRuntime().halt(0);
    }

    private static JsonObject answer(Commands commands, JsonObject command) {
        try {
            return commands.carryOut(command);
        } catch (Throwable error) {
            JsonObject answer = new JsonObject();
            answer.addProperty("error", error.toString());
            return answer;
        }
    }
}
