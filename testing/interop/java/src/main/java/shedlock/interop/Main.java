package shedlock.interop;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import net.javacrumbs.shedlock.core.LockProvider;

/**
 * A ShedLock process that executes commands. Each line on standard input is a command, as a JSON
 * object; each line on standard output is the answer with the same {@code id}, in the order in which
 * the commands finish. It ends when standard input closes.
 *
 * <p>Arguments: the provider as named in {@link Stores}, the store's URL, and the database, environment
 * or path of the test; for {@code jdbc-template} the time mode instead: {@code db}, {@code client} (in
 * the zone of this JVM) or {@code client-utc}. Without arguments there is no store.
 *
 * <p>Properties: {@code interop.host} is the host that {@code jdbc-template} writes as owner, instead
 * of the name of this machine; {@code interop.patience} is the timeout for a connection in
 * milliseconds, or with Redis for a reply, after which nothing is sent again.
 */
public final class Main {
    private static final Gson GSON = new Gson();

    private Main() {}

    public static void main(String[] args) throws Exception {
        // Keeps the output of libraries out of the answers.
        PrintStream answers = new PrintStream(
                new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);

        List<LockProvider> providers = args.length == 0 ? List.of() : List.of(Stores.open(args));
        Commands commands = new Commands(providers);
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
        // Unlocks nothing, like a process that is killed.
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
